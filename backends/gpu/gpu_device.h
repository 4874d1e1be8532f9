// An emulated GPU: a device with streams of its own, to which the host launches kernels and goes on.
//
// A Program becomes launches, one for each operation as it was recorded; what optimizers, clipping and casts do to
// whole flat buffers is one launch each.  Kernels are those of the cpu device, and so are the bits.
// docs/decisions/001-threaded-gpu.md says how it fits the contract of backend.h.  Thread safety: one thread at a time
// calls a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "backends/backend.h"

namespace runner::backends::gpu {

struct GpuOptions {
  int index = 0;    // among the devices of a run
  int threads = 1;  // of the host, that compute
  // The device computes beside the host: the process has a core for it.
  bool own_thread = true;
  bool spins = true;             // before it sleeps; false where devices are more than cores
  bool launch_blocking = false;  // the host waits for each launch
  std::chrono::milliseconds patience = std::chrono::minutes(10);
};

class GpuDevice : public Device {
 public:
  // Kernels, copies and the like since it was made.
  virtual uint64_t launches() const = 0;
};

std::unique_ptr<GpuDevice> make_gpu_device(const GpuOptions& options);

}  // namespace runner::backends::gpu
