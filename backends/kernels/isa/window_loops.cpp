// Rows of windows: maxima and sums.

#include "backends/kernels/isa/halves.h"
#include "backends/kernels/isa/loops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

// Calls body(i, i · stride) for i in [0, n). Loops with the usual strides are vectorised.
template <class Body>
RUNNER_INLINE void for_strided(int64_t stride, int64_t n, const Body& body) {
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) body(i, i);
  } else if (stride == 2) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) body(i, 2 * i);
  } else {
    for (int64_t i = 0; i < n; ++i) body(i, i * stride);
  }
}

template <class T>
void largest(T* best, const T* x, int64_t stride, int64_t n) {
  for_strided(stride, n, [&](int64_t i, int64_t at_x) {
    const T value = x[at_x];
    best[i] = value > best[i] || value != value ? value : best[i];
  });
}

template <class T>
void largest_at(T* best, int32_t* at, const T* x, int64_t stride, int64_t n, int32_t element) {
  for_strided(stride, n, [&](int64_t i, int64_t at_x) {
    const T value = x[at_x];
    const bool is_larger = value > best[i] || value != value || at[i] < 0;
    best[i] = is_larger ? value : best[i];
    at[i] = is_larger ? element : at[i];
  });
}

template <class T>
void add(T* sums, const T* x, int64_t stride, int64_t n) {
  for_strided(stride, n, [&](int64_t i, int64_t at_x) { sums[i] += x[at_x]; });
}

template <class T>
void add_to(T* x, int64_t stride, const T* values, int64_t n) {
  for_strided(stride, n, [&](int64_t i, int64_t at_x) { x[at_x] += values[i]; });
}

// best = value where it is larger or NaN; `taken`: where.
template <class Vector, class Mask>
RUNNER_INLINE void take_better(Vector& best, const Vector& value, Mask& taken) {
  taken = (value > best) | (value != value);
  best = taken ? value : best;
}

template <class T>
void largest_of_four(T* y, const T* x, int64_t x_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row, y += cols, x += 2 * x_stride)
    for_short_pieces(cols, [&]<int n>(int64_t first) {
      using Of = Vectors<T, n>;
      typename Of::Halves top, bottom;
      Of::load(top, x + 2 * first);
      Of::load(bottom, x + 2 * first + x_stride);
      auto best = top.even;
      auto taken = best > best;
      take_better(best, top.odd, taken);
      take_better(best, bottom.even, taken);
      take_better(best, bottom.odd, taken);
      Of::store(best, y + first);
    });
}

template <class T>
void spread_to_largest_of_four(T* grad_x, const T* x, const T* grad_y, int64_t x_stride, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row, grad_y += cols, x += 2 * x_stride, grad_x += 2 * x_stride)
    for_short_pieces(cols, [&]<int n>(int64_t first) {
      using Of = Vectors<T, n>;
      typename Of::Halves top, bottom;
      Of::load(top, x + 2 * first);
      Of::load(bottom, x + 2 * first + x_stride);
      auto best = top.even;
      auto second = best > best, third = second, fourth = second;
      take_better(best, top.odd, second);
      take_better(best, bottom.even, third);
      take_better(best, bottom.odd, fourth);
      typename Of::Vector grad, zero{};
      Of::load(grad, grad_y + first);
      top.even = second | third | fourth ? zero : grad;
      top.odd = second & ~(third | fourth) ? grad : zero;
      bottom.even = third & ~fourth ? grad : zero;
      bottom.odd = fourth ? grad : zero;
      Of::store(top, grad_x + 2 * first);
      Of::store(bottom, grad_x + 2 * first + x_stride);
    });
}

template <class T>
constexpr WindowLoops<T> kTable = {largest<T>, largest_at<T>, add<T>, add_to<T>};
template <class Stored>
constexpr WindowsOfFour<Stored> kOfFour = {largest_of_four<Stored>, spread_to_largest_of_four<Stored>};

}  // namespace

const WindowLoops<float>& window_loops_f32() {
  return kTable<float>;
}
const WindowLoops<double>& window_loops_f64() {
  return kTable<double>;
}
const WindowsOfFour<float>& windows_of_four_f32() {
  return kOfFour<float>;
}
const WindowsOfFour<double>& windows_of_four_f64() {
  return kOfFour<double>;
}
const WindowsOfFour<uint16_t>& windows_of_four_bf16() {
  return kOfFour<uint16_t>;
}

}  // namespace runner::backends::RUNNER_ISA
