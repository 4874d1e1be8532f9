// Windows that convolution and pooling move along the spatial axes of a tensor (B, C, S…).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/tensor/rounding.h"

namespace runner::backends {

// Windows along one axis. Element k of window i is element i · stride + k · dilation − before of the axis; `before` and
// `after` elements of padding are added to its ends.
struct Window {
  static constexpr size_t kNumbers = 5;  // in Node::attrs

  int64_t size = 1, stride = 1, dilation = 1, before = 0, after = 0;

  // Elements from the first to the last of a window, including these.
  int64_t extent() const { return (size - 1) * dilation + 1; }
  // Number of windows on an axis of n elements.
  int64_t count(int64_t n) const {
    const int64_t rest = n + before + after - extent();
    return rest < 0 ? 0 : rest / stride + 1;
  }
  // Element k of window 0; negative in the padding.
  int64_t element(int64_t k) const { return k * dilation - before; }
  // Of `windows` windows on an axis of n elements: those whose element k is not in the padding.
  IndexRange<int64_t> inside(int64_t k, int64_t n, int64_t windows) const {
    const int64_t at = element(k);
    const int64_t begin = at >= 0 ? 0 : ceil_div(-at, stride);
    const int64_t end = at >= n ? 0 : ceil_div(n - at, stride);
    return {std::min(begin, windows), std::clamp(end, std::min(begin, windows), windows)};
  }
  // Pairs of a window and an element of it that is not in the padding.
  int64_t pairs_inside(int64_t n) const {
    int64_t pairs = 0;
    for (int64_t k = 0; k < size; ++k) pairs += inside(k, n, count(n)).size();
    return pairs;
  }

  bool operator==(const Window&) const = default;
};

inline constexpr int kMostWindowAxes = 2;

// The error of a window that has no place on an axis: op, extent of the window, elements of the axis, what it is an
// axis of, padding before and after.
inline constexpr char kDoesNotFit[] =
    "{}: a window of {} elements does not fit into {} elements of {} with a padding of {} and {}";

// What is wrong with the groups of a convolution from `in` to `out` channels: "expected groups that divide 4 and 8
// channels, got 3". Empty if nothing is.
std::string groups_fault(int64_t groups, int64_t in, int64_t out);

// The windows in the attributes of a node, one for each spatial axis.
std::vector<Window> windows_of(std::span<const int64_t> numbers);
void append_to(std::vector<int64_t>& attrs, std::span<const Window> windows);

// The attributes of convolutions.
struct ConvAttributes {
  int64_t groups;
  bool wide;                         // bf16 operands, f32 result
  std::span<const int64_t> windows;  // numbers of the windows

  static constexpr size_t kWide = 1, kFirstWindow = 2;  // positions in Node::attrs
  static ConvAttributes of(std::span<const int64_t> attrs) {
    return {attrs[0], attrs[kWide] != 0, attrs.subspan(kFirstWindow)};
  }
};

// As XLA writes them: "size=3x3 stride=2x2 pad=1_1x1_1 rhs_dilate=2x2"; what is 1, or padding of 0, is left out.
std::string windows_text(std::span<const int64_t> numbers);

// Windows of pooling as PyTorch has them: `padding` is added at both ends. With ceil_mode the last window may extend
// past the padding, if it begins before the padding at the end.
struct Pooling {
  int64_t size = 1, stride = 1, padding = 0, dilation = 1;
  bool ceil_mode = false;

  // What is wrong with the numbers: "expected a padding of at most half of the window, 1, got 2". Empty if nothing is.
  std::string fault() const;
  // On an axis of n elements; `after` includes what ceil_mode adds.
  Window on(int64_t n) const;
};

}  // namespace runner::backends
