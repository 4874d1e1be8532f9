// Rows of windows: maxima and sums.
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/vector_math.h"

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
