// An emulated GPU: a device with streams, to which the host launches kernels asynchronously.
//
// A Program becomes one launch per recorded operation; operations of optimizers, clipping and casts on whole flat
// buffers are one launch each. Kernels are those of the CPU device, so results are bit-identical.
// docs/decisions/054-gpu-streams.md explains how this fits the contract of backend.h. Thread safety: one thread at a
// time calls a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "backends/exec/backend.h"
#include "backends/gpu/gpu_data_sheet.h"

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

// Makes the device alone. make_gpu_device() (gpu_device_model.h) makes it with its model. If a kernel has not ended
// when the device is released, the device is abandoned (runtime/abandoned.h).
std::shared_ptr<Device> make_unmodelled_gpu(const GpuOptions& options);

}  // namespace runner::backends::gpu
