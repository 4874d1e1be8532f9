// The spatial axes of a convolution or of pooling: two of them; tensors with one have a height of 1.
#pragma once

#include <span>
#include <type_traits>

#include "backends/ir/windows.h"
#include "backends/kernels/isa/loops.h"
#include "backends/tensor/shape.h"

namespace runner::backends {

struct PlaneAxis {
  int64_t size = 1, windows = 1;
  Window window = {};

  IndexRange<int64_t> inside(int64_t k) const { return window.inside(k, size, windows); }
};

struct Plane {
  PlaneAxis h, w;

  int64_t size() const { return h.size * w.size; }
  int64_t windows() const { return h.windows * w.windows; }
  int64_t elements() const { return h.window.size * w.window.size; }  // of a window

  // `x`: the tensor over which the windows of `numbers` move.
  static Plane of(const Shape& x, std::span<const int64_t> numbers) {
    const std::vector<Window> windows = windows_of(numbers);
    const auto axis = [&](size_t i) {
      const int64_t size = x[static_cast<int>(2 + i)];
      return PlaneAxis{size, windows[i].count(size), windows[i]};
    };
    return windows.size() == 1 ? Plane{{}, axis(0)} : Plane{axis(0), axis(1)};
  }
};

}  // namespace runner::backends
