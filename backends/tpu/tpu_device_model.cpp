#include "backends/tpu/tpu_device_model.h"

#include <utility>

#include "backends/exec/cpu_device.h"
#include "backends/tpu/eager_host.h"
#include "backends/tpu/eager_tpu_model.h"
#include "backends/tpu/lazy_tpu_model.h"
#include "backends/tpu/tpu_device.h"

namespace runner::backends::tpu {
namespace {

template <class Model>
std::unique_ptr<ModelledDevice> make_device(std::unique_ptr<Device> host, bool own_thread, const TpuOptions& options) {
  auto device = std::make_unique<TpuDevice>(std::move(host), own_thread, options.hardware);
  auto model = std::make_unique<Model>(*device, options);
  return std::make_unique<ModelledDevice>(std::move(device), std::move(model));
}

}  // namespace

std::unique_ptr<ModelledDevice> make_tpu_device(const TpuOptions& options) {
  std::unique_ptr<Device> host = make_cpu_device(options.threads);
  if (options.eager) return make_device<EagerTpuModel>(make_eager_host(std::move(host)), /*own_thread=*/false, options);
  return make_device<LazyTpuModel>(std::move(host), options.own_thread && !options.waits_at_mark_step, options);
}

TpuDeviceModel* find_tpu_model(const ModelledDevice& device) {
  return dynamic_cast<TpuDeviceModel*>(&device.model());
}

TpuDeviceModel& model_of_tpu(const ModelledDevice& device) {
  return static_cast<TpuDeviceModel&>(device.model());
}

}  // namespace runner::backends::tpu
