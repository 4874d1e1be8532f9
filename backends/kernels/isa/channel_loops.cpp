// Sums of the rows of channels.
#include "backends/kernels/isa/lanes.h"
#include "backends/kernels/isa/loops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

// Σ term(i) over i in [0, n): whole groups of 32 in lanes, then groups of 8 as trees, then one by one.
template <class Many, class One>
RUNNER_INLINE double sum_of(int64_t n, const Many& many, const One& one) {
  constexpr int kGroup = 8;
  int64_t i = n / lanes::kLanes * lanes::kLanes;
  double total = lanes::sum(i, many, one);
  for (; i + kGroup <= n; i += kGroup) {
    double group[kGroup];
    for (int l = 0; l < kGroup; ++l) group[l] = one(i + l);
    for (int half = kGroup / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) group[l] += group[l + half];
    total += group[0];
  }
  for (; i < n; ++i) total += one(i);
  return total;
}

// As many elements as a vector of f64 has.
template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(lanes::kWidth * sizeof(T))));
};

// Adds Σ term to sums[row] for each row. term: a function of vectors or numbers (a, x, mean).
template <class T, class Term>
RUNNER_INLINE void add_rows(double* sums, const T* a, const T* x, const T* means, int64_t rows, int64_t cols,
                            const Term& term) {
  if (cols == 0) return;
  if (cols == 1) {
    RUNNER_VECTOR_LOOP
    for (int64_t row = 0; row < rows; ++row) {
      T value;
      term(value, a[row], x[row], means[row]);
      sums[row] += static_cast<double>(value);
    }
    return;
  }
  for (int64_t row = 0; row < rows; ++row, a += cols, x += cols) {
    const T mean = means[row];
    const auto many = [&](int64_t i, lanes::Doubles& out) {
      typename Lanes<T>::Vector of_a, of_x, value;
      std::memcpy(&of_a, a + i, sizeof of_a);
      std::memcpy(&of_x, x + i, sizeof of_x);
      term(value, of_a, of_x, mean);
      out = __builtin_convertvector(value, lanes::Doubles);
    };
    const auto one = [&](int64_t i) {
      T value;
      term(value, a[i], x[i], mean);
      return static_cast<double>(value);
    };
    sums[row] += sum_of(cols, many, one);
  }
}

template <class T>
void add_values(double* sums, const T* a, int64_t rows, int64_t cols) {
  add_rows(sums, a, a, a, rows, cols, [](auto& value, const auto& of_a, const auto&, T) { value = of_a; });
}

template <class T>
void add_squares(double* sums, const T* x, const T* means, int64_t rows, int64_t cols) {
  add_rows(sums, x, x, means, rows, cols,
           [](auto& value, const auto&, const auto& of_x, T mean) { value = (of_x - mean) * (of_x - mean); });
}

template <class T>
void add_products(double* sums, const T* a, const T* x, const T* means, int64_t rows, int64_t cols) {
  add_rows(sums, a, x, means, rows, cols,
           [](auto& value, const auto& of_a, const auto& of_x, T mean) { value = of_a * (of_x - mean); });
}

template <class T>
constexpr ChannelLoops<T> kTable = {add_values<T>, add_squares<T>, add_products<T>};

}  // namespace

const ChannelLoops<float>& channel_loops_f32() {
  return kTable<float>;
}
const ChannelLoops<double>& channel_loops_f64() {
  return kTable<double>;
}

}  // namespace runner::backends::RUNNER_ISA
