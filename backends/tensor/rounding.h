// Division of counts and sizes that rounds up.
#pragma once

#include <concepts>

namespace runner::backends {

// a / b for a >= 0, b > 0.
template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// The smallest multiple of b that is at least a.
template <std::integral T>
constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

}  // namespace runner::backends
