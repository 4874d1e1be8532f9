// The CPU device: runs Plans on the calling thread and the worker pool.
#pragma once

#include <memory>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"

namespace runner::backends {

// `threads`: size of the worker pool; 0: one per core that the process may use. `memory`: limit for tensors in bytes,
// or none.
std::unique_ptr<Device> make_cpu_device(int threads, std::optional<int64_t> memory = {});

// Convert a compiled executable of this device to its image, which omits what is cheap to rebuild, and back.
// restore_executable() throws like restore_plan().
PlanImage image_of(const Executable& executable);
std::shared_ptr<Executable> restore_executable(PlanImage image);

}  // namespace runner::backends
