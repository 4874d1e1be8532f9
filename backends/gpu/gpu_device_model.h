// The model of an emulated GPU: its memory, predicted time, and captured graphs, as if its rank shared nothing with
// others.
//
// All-reduces are modelled together with the step that computes the gradients. Thread safety: as for DeviceModel.
#pragma once

#include <memory>
#include <optional>

#include "backends/device_model/modelled_device.h"
#include "backends/gpu/capture_counters.h"
#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/gpu_device.h"
#include "backends/gpu/memory_statistics.h"
#include "backends/gpu/timeline.h"

namespace runner::backends::gpu {

class GpuDeviceModel : public DeviceModel {
 public:
  virtual const GpuDataSheet& hardware() const = 0;
  // Statistics of the modelled memory (device_memory.h). The reference stays up to date.
  virtual const MemoryStatistics& memory_statistics() const = 0;
  // Returns the predicted time since the last call.
  virtual PredictedTime take_predicted_time() = 0;
  // Returns nullopt if capture is off.
  virtual std::optional<CaptureCounters> captures() const = 0;
};

// Makes an emulated GPU with its model.
std::unique_ptr<ModelledDevice> make_gpu_device(const GpuOptions& options);
// Returns the model of such a device, or null for other devices.
GpuDeviceModel* find_gpu_model(const ModelledDevice& device);
// Returns the model of such a device.
GpuDeviceModel& model_of_gpu(const ModelledDevice& device);

}  // namespace runner::backends::gpu
