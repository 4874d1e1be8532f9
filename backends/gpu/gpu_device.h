// An emulated GPU: a device with streams, to which the host launches kernels asynchronously.
//
// A Program becomes one launch per recorded operation; operations of optimizers, clipping and casts on whole flat
// buffers are one launch each. Kernels are those of the CPU device, so results are bit-identical.
// docs/decisions/054-gpu-streams.md explains how this fits the contract of backend.h. Thread safety: one thread at a
// time calls a device and its model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "backends/device_model/modelled_device.h"
#include "backends/exec/backend.h"
#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/memory_statistics.h"
#include "backends/gpu/timeline.h"

namespace runner::backends::gpu {

// Batches that a device keeps staged; an older one is dropped.
inline constexpr size_t kStagedBatches = 2;

struct GpuOptions {
  int index = 0;    // index among the devices of a run
  int threads = 1;  // host threads that compute
  // Whether the device computes concurrently with the host: the process has a core for it.
  bool own_thread = true;
  bool spins = true;             // spin before sleeping; false if there are more devices than cores
  bool launch_blocking = false;  // the host waits for each launch
  GpuProduct model = GpuProduct::kA100With40g;
  std::optional<int64_t> memory = {};  // bytes; none: the memory of the model
  int gpus = 1;                        // GPUs of the machine that train together
  bool capture = false;                // capture steps as CUDA graphs after two eager runs
  bool allow_tf32 = false;             // f32 products read TF32 operands if the model supports TF32
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  std::function<void()> check_others = {};  // see Streams::Options::check_others
};

// Whether f32 products read operands rounded to TF32.
inline bool uses_tf32(const GpuOptions& options) {
  return options.allow_tf32 && row_of(options.model).product_flops.tf32 > 0;
}

// Makes the device alone. make_gpu_device() makes it with its model. If a kernel has not ended when the device is
// released, the device is abandoned (runtime/abandoned.h).
std::shared_ptr<Device> make_unmodelled_gpu(const GpuOptions& options);

// Counters of captured graphs (captured_graphs.h).
struct CaptureCounters {
  int64_t graphs = 0;     // captured so far
  int64_t replays = 0;    // of these graphs
  int64_t fallbacks = 0;  // launches of a changed step, run eagerly
};

// The model of an emulated GPU: its memory, predicted time, and captured graphs, as if its rank shared nothing with
// others. All-reduces are modelled together with the step that computes the gradients.
class GpuDeviceModel : public DeviceModel {
 public:
  virtual const GpuDataSheet& hardware() const = 0;
  // Statistics of the modelled memory (device_memory.h). The reference stays up to date.
  virtual const MemoryStatistics& memory_statistics() const = 0;
  // Returns the predicted time since the last call.
  virtual PredictedTime take_predicted_time() = 0;
  // Returns the predicted time of an optimizer step that makes these submissions and ends with a read of a flag, once
  // all steps are alike. `prefetches`: the batch of the next submission is copied while one is computed. With
  // gpu.capture, all submissions are replays.
  virtual PredictedTime predicted_step(std::span<const PlannedSubmission> submissions, bool prefetches) const = 0;
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
