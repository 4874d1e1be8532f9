// Softmax of attention scores, and its gradient, on rows of f32 or f64. Sums are f64 (lanes.h).

#include <cstring>

#include "backends/kernels/isa/lanes.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

using lanes::Doubles;

template <class T>
RUNNER_INLINE T exp_of(T x) {
  return scalar_ops::Scalar<Op::kExp>::apply(x);
}

// The sum of the exponentials of a row of n ≥ 1 scores; 0 if the row sees no key.
template <class T>
RUNNER_INLINE double exponentials_of_row(T* x, T scale, const T* mask, int64_t n) {
  if (mask != nullptr) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] * scale + mask[i];
  } else if (scale != 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  }
  const T top = lanes::extremum<true>(x, n);
  if (top == -std::numeric_limits<T>::infinity()) {
    for (int64_t i = 0; i < n; ++i) x[i] = T{0};
    return 0;
  }
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i] - top);
  return lanes::sum(x, n);
}

template <class T>
void exponentials(const AttentionRows<T>& rows, T* factors) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    T* x = rows.scores + r * rows.stride;
    const int64_t n = rows.seen[r];
    const T* mask = rows.mask == nullptr ? nullptr : rows.mask + r * rows.mask_stride;
    const double sum = n > 0 ? exponentials_of_row(x, rows.scale, mask, n) : 0;
    factors[r] = sum == 0 ? T{0} : static_cast<T>(1.0 / sum);
    for (int64_t i = n; i < rows.keys; ++i) x[i] = T{0};
  }
}

// w (d − Σ w d), where w are the weights before dropout and d is their gradient.
template <class T>
RUNNER_INLINE void softmax_gradient(const T* w, T* d, int64_t n) {
  const auto dot = static_cast<T>(lanes::sum(
      n,
      [=](int64_t i, Doubles& out) {
        Doubles weight;
        lanes::load(weight, w + i);
        lanes::load(out, d + i);
        out *= weight;
      },
      [=](int64_t i) { return static_cast<double>(w[i]) * static_cast<double>(d[i]); }));
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) d[i] = w[i] * (d[i] - dot);
}

template <class T>
void gradient(const AttentionRowGradient<T>& row) {
  T *const w = row.weights, *const d = row.grads;
  const float* const dropout = row.dropout;
  const T factor = row.factor;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < row.keys; ++i) w[i] *= factor;
  if (dropout == nullptr) return softmax_gradient(w, d, row.keys);
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < row.keys; ++i) d[i] *= static_cast<T>(dropout[i]);
  softmax_gradient(w, d, row.keys);
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < row.keys; ++i) w[i] *= static_cast<T>(dropout[i]);
}

template <class T>
void drop(T* weights, const float* dropout, int64_t n) {
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) weights[i] *= static_cast<T>(dropout[i]);
}

template <class T>
void scale(T* out, const T* x, T factor, int64_t n) {
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

template <class T>
void scale_rows(T* x, const T* factors, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) scale(x + r * width, x + r * width, factors[r], width);
}

template <class T>
constexpr AttentionLoops<T> kTable = {exponentials<T>, gradient<T>, drop<T>, scale<T>, scale_rows<T>};

}  // namespace

const AttentionLoops<float>& attention_loops_f32() {
  return kTable<float>;
}
const AttentionLoops<double>& attention_loops_f64() {
  return kTable<double>;
}

}  // namespace runner::backends::RUNNER_ISA
