// The cpu device: replays Plans on the calling thread and the worker pool.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace runner::backends {

// With a worker pool of `threads` (0: one for each core that the process may use).
std::unique_ptr<Device> make_cpu_device(int threads, std::optional<int64_t> memory = {});

}  // namespace runner::backends
