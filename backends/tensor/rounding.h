// Division of counts and sizes: rounded up, and among ranks.
#pragma once

#include <algorithm>
#include <concepts>

namespace runner::backends {

// Returns a / b rounded up, for a >= 0 and b > 0.
template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// The smallest multiple of b that is at least a.
template <std::integral T>
constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

template <std::integral T>
struct Part {
  T first, end;
};

// Returns the part of `count` elements that `rank` of `size` gets: whole lines of `line` elements, divided evenly.
template <std::integral T>
constexpr Part<T> part_of(T count, T line, int rank, int size) {
  const auto bound = [&](int r) {
    return std::min(count, ceil_div(count, line) * static_cast<T>(r) / static_cast<T>(size) * line);
  };
  return {bound(rank), bound(rank + 1)};
}

}  // namespace runner::backends
