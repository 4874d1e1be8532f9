// Rows of windows: maxima and sums.
#include "backends/kernels/isa/loops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

template <class T>
void largest(T* best, const T* x, int64_t stride, int64_t n) {
  const auto take = [&](int64_t i, T value) { best[i] = value > best[i] || value != value ? value : best[i]; };
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) take(i, x[i]);
  } else if (stride == 2) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) take(i, x[2 * i]);
  } else {
    for (int64_t i = 0; i < n; ++i) take(i, x[i * stride]);
  }
}

template <class T>
void largest_at(T* best, int32_t* at, const T* x, int64_t stride, int64_t n, int32_t element) {
  const auto take = [&](int64_t i, T value) {
    const bool is_larger = value > best[i] || value != value || at[i] < 0;
    best[i] = is_larger ? value : best[i];
    at[i] = is_larger ? element : at[i];
  };
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) take(i, x[i]);
  } else if (stride == 2) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) take(i, x[2 * i]);
  } else {
    for (int64_t i = 0; i < n; ++i) take(i, x[i * stride]);
  }
}

template <class T>
void add(T* sums, const T* x, int64_t stride, int64_t n) {
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) sums[i] += x[i];
  } else {
    for (int64_t i = 0; i < n; ++i) sums[i] += x[i * stride];
  }
}

template <class T>
void add_to(T* x, int64_t stride, const T* values, int64_t n) {
  if (stride == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) x[i] += values[i];
  } else {
    for (int64_t i = 0; i < n; ++i) x[i * stride] += values[i];
  }
}

template <class T>
constexpr WindowLoops<T> kTable = {largest<T>, largest_at<T>, add<T>, add_to<T>};

}  // namespace

const WindowLoops<float>& window_loops_f32() {
  return kTable<float>;
}
const WindowLoops<double>& window_loops_f64() {
  return kTable<double>;
}

}  // namespace runner::backends::RUNNER_ISA
