// Division of counts and sizes: rounded up, and into parts for ranks or chunks of work.
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
struct IndexRange {
  T begin, end;
  constexpr T size() const { return end - begin; }
};

// Returns part `index` of `parts` nearly equal parts of `count` elements, in whole lines of `line` elements.
template <std::integral T, std::integral Index>
constexpr IndexRange<T> part_of(T count, Index index, Index parts, T line = 1) {
  const auto bound = [&](Index i) {
    return std::min(count, ceil_div(count, line) * static_cast<T>(i) / static_cast<T>(parts) * line);
  };
  return {bound(index), bound(index + 1)};
}

}  // namespace runner::backends
