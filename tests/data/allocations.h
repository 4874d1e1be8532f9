// Counts what operator new hands out in this test binary.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace runner::data {

inline std::atomic<int64_t> allocation_count{0};
inline std::atomic<size_t> largest_allocation{0};  // bytes

}  // namespace runner::data
