// An emulated GPU: a device with streams of its own, to which the host launches kernels and goes on.
//
// A Program becomes launches, one for each operation as it was recorded; what optimizers, clipping and casts do to
// whole flat buffers is one launch each.  Kernels are those of the cpu device, and so are the bits.
// docs/decisions/054-gpu-streams.md says how it fits the contract of backend.h.  Thread safety: one thread at a time
// calls a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "backends/backend.h"
#include "backends/gpu/capture_counters.h"
#include "backends/gpu/gpu_model.h"
#include "backends/gpu/memory_statistics.h"
#include "backends/gpu/timeline.h"

namespace runner::backends::gpu {

struct GpuOptions {
  int index = 0;    // among the devices of a run
  int threads = 1;  // of the host, that compute
  // The device computes beside the host: the process has a core for it.
  bool own_thread = true;
  bool spins = true;             // before it sleeps; false where devices are more than cores
  bool launch_blocking = false;  // the host waits for each launch
  GpuModel model = GpuModel::kA100With40g;
  std::optional<int64_t> memory = {};  // bytes; none: the model's
  int gpus = 1;                        // of the box, that train together
  bool capture = false;                // what has run twice is launched as one, as a CUDA graph is replayed
  bool allow_tf32 = false;             // products of f32 read operands in tf32, where the model has units for it
  std::chrono::milliseconds patience = std::chrono::minutes(10);
  std::function<void()> check_others = {};  // Streams::Options::check_others
};

class GpuDevice : public Device {
 public:
  virtual const GpuModelRow& model() const = 0;
  // Of what it has by its account (device_memory.h), as it is whenever that is looked at.
  virtual const MemoryStatistics& memory_statistics() const = 0;
  // What has come to pass on its predicted clock since the last call.
  virtual PredictedTime take_predicted_time() = 0;
  // None: it does not capture.
  virtual std::optional<CaptureCounters> captures() const = 0;
};

std::unique_ptr<GpuDevice> make_gpu_device(const GpuOptions& options);

}  // namespace runner::backends::gpu
