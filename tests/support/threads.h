// Counts threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>

namespace runner::support {

inline int64_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

}  // namespace runner::support
