// How memory that kernels run on is aligned: to a cache line, which is also the widest vector.
#pragma once

#include <cstddef>

namespace runner::backends {

inline constexpr size_t kAlignment = 64;

// `bytes` rounded up to a multiple of kAlignment.
constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace runner::backends
