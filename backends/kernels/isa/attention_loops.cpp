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

RUNNER_INLINE int64_t whole_lanes(int64_t n) {
  return (n + lanes::kLanes - 1) / lanes::kLanes * lanes::kLanes;
}

template <class T>
RUNNER_INLINE void fill(T* x, int64_t first, int64_t end, T value) {
  for (int64_t i = first; i < end; ++i) x[i] = value;
}

// The sum of the exponentials of a row of n ≥ 1 scores; 0 if the row sees no key. Uses x up to whole lanes, so that no
// element is left over.
template <class T>
RUNNER_INLINE double exponentials_of_row(T* x, T scale, const T* mask, int64_t n) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  if (mask != nullptr || !(scale > 0)) {  // the largest score need not be that of the largest product
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] * scale + (mask != nullptr ? mask[i] : T{0});
    scale = 1;
  }
  const int64_t padded = whole_lanes(n);
  fill(x, n, padded, kHidden);
  const T top = lanes::extremum<true>(x, padded) * scale;
  if (top == kHidden) {
    fill(x, 0, padded, T{0});
    return 0;
  }
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < padded; ++i) x[i] = exp_of(x[i] * scale - top);
  fill(x, n, padded, T{0});
  return lanes::sum(x, padded);
}

template <class T>
void exponentials(const AttentionRows<T>& rows, T* factors) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    T* x = rows.scores + r * rows.stride;
    const int64_t n = rows.seen[r];
    const T* mask = rows.mask == nullptr ? nullptr : rows.mask + r * rows.mask_stride;
    const double sum = n > 0 ? exponentials_of_row(x, rows.scale, mask, n) : 0;
    factors[r] = sum == 0 ? T{0} : static_cast<T>(1.0 / sum);
    fill(x, n, rows.keys, T{0});
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
  const int64_t padded = whole_lanes(row.keys);
  fill(d, row.keys, padded, T{0});
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < padded; ++i) w[i] *= factor;
  if (dropout == nullptr) return softmax_gradient(w, d, padded);
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < row.keys; ++i) d[i] *= static_cast<T>(dropout[i]);
  softmax_gradient(w, d, padded);
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
