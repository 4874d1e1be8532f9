// The cpu device: replays Plans on the calling thread and the worker pool.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/plan/plan.h"

namespace runner::backends {

// With a worker pool of `threads` (0: one for each core that the process may use).
std::unique_ptr<Device> make_cpu_device(int threads, std::optional<int64_t> memory = {});

// What such a device has compiled, without what is quick to make again; and an executable for any such device made of
// it.  Throws as restore_plan().
PlanImage image_of(const Executable& executable);
std::shared_ptr<Executable> restore_executable(PlanImage image);

}  // namespace runner::backends
