// Alignment of memory that kernels use: a cache line, which is also the widest vector.
#pragma once

#include <cstddef>

#include "backends/tensor/rounding.h"

namespace runner::backends {

inline constexpr size_t kAlignment = 64;

// `bytes` rounded up to a multiple of kAlignment.
constexpr size_t aligned(size_t bytes) {
  return round_up(bytes, kAlignment);
}

}  // namespace runner::backends
