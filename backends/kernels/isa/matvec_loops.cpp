// Products of one row with a matrix, f32 or bf16, at the rate at which memory gives the matrix.
//
// Each element is one chain of multiply-adds in the order of k, as in matmul_loops.cpp, with the same bits.

#include <cstring>
#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::RUNNER_ISA {

namespace {

constexpr int64_t kWidth = RUNNER_VECTOR_BYTES / sizeof(float);
typedef float Vector __attribute__((vector_size(kWidth * 4)));
typedef uint32_t Units __attribute__((vector_size(kWidth * 4)));  // of 32 bits: one f32, or two bf16

// Elements in a line of the cache. Prefetches matter as long as the rows of B are short or far apart.
template <class T>
constexpr int64_t kLine = 64 / sizeof(T);

template <class To, class From>
RUNNER_INLINE To bits_as(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

RUNNER_INLINE float value_at(const float* b) {
  return *b;
}
RUNNER_INLINE float value_at(const uint16_t* b) {
  return vector_math::from_bits(uint32_t{*b} << 16);
}

// sum + a b. Left to itself, GCC may compute products of several steps before it adds them, each rounded.
RUNNER_INLINE float add_product(float sum, float a, float b) {
#if defined(__FMA__) || defined(__AVX512F__)
  return __builtin_fmaf(a, b, sum);
#else
  return sum + a * b;
#endif
}

RUNNER_INLINE Vector load(const float* b) {
  Vector values;
  std::memcpy(&values, b, sizeof values);
  return values;
}
RUNNER_INLINE Vector load(const uint16_t* b) {
  typedef uint16_t Halves __attribute__((vector_size(kWidth * 2)));
  Halves halves;
  std::memcpy(&halves, b, sizeof halves);
  return bits_as<Vector>(__builtin_convertvector(halves, Units) << 16);
}

// ---- B (inner, cols) -----------------------------------------------------------------------------------------------

// y[j] += x[0] b[0][j], then x[1] b[1][j] and so on. Prefetches as many rows of B after these.
template <class T, int... k>
RUNNER_INLINE void add_rows(float* y, const float* x, const T* b, int64_t stride, int64_t cols,
                            std::integer_sequence<int, k...>) {
  int64_t j = 0;
  const auto add_vector = [&](int64_t at) {
    Vector sum = load(y + at);
    ((sum += x[k] * load(b + k * stride + at)), ...);
    std::memcpy(y + at, &sum, sizeof sum);
  };
  for (; j + kLine<T> <= cols; j += kLine<T>) {
    (__builtin_prefetch(b + (k + sizeof...(k)) * stride + j), ...);
    for (int64_t i = 0; i < kLine<T>; i += kWidth) add_vector(j + i);
  }
  for (; j + kWidth <= cols; j += kWidth) add_vector(j);
  for (; j < cols; ++j) {
    float sum = y[j];
    ((sum = add_product(sum, x[k], value_at(b + k * stride + j))), ...);
    y[j] = sum;
  }
}

// Reads several rows of B at a time; the sums of a block of columns stay in the L1 cache.
template <class T>
void multiply_rows(const MatvecBlock& m) {
  constexpr int64_t kBlock = 2048;
  constexpr int kRows = 4;
  std::memset(m.y, 0, static_cast<size_t>(m.cols) * sizeof(float));
  for (int64_t j = 0; j < m.cols; j += kBlock) {
    const int64_t cols = m.cols - j < kBlock ? m.cols - j : kBlock;
    const T* b = static_cast<const T*>(m.b) + j;
    int64_t k = 0;
    for (; k + kRows <= m.inner; k += kRows, b += kRows * m.stride)
      add_rows(m.y + j, m.x + k, b, m.stride, cols, std::make_integer_sequence<int, kRows>{});
    for (; k < m.inner; ++k, b += m.stride)
      add_rows(m.y + j, m.x + k, b, m.stride, cols, std::make_integer_sequence<int, 1>{});
  }
}

// ---- B (cols, inner) -----------------------------------------------------------------------------------------------

typedef uint32_t Quad __attribute__((vector_size(16)));

RUNNER_INLINE Quad quad_at(const void* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

// Four units of each of the rows 0, 4, 8, …: as many as a vector has quads.
template <class T>
RUNNER_INLINE Units every_fourth_row(const T* b, int64_t stride) {
#if defined(__AVX512F__)
  typedef uint32_t Two __attribute__((vector_size(32)));
  const Two low = __builtin_shufflevector(quad_at(b), quad_at(b + 4 * stride), 0, 1, 2, 3, 4, 5, 6, 7);
  const Two high = __builtin_shufflevector(quad_at(b + 8 * stride), quad_at(b + 12 * stride), 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
  return __builtin_shufflevector(quad_at(b), quad_at(b + 4 * stride), 0, 1, 2, 3, 4, 5, 6, 7);
#else
  static_cast<void>(stride);
  return quad_at(b);
#endif
}

// In each quad: the first (half = 0) or last two elements of a and b, interleaved in pieces of `size` elements.
template <int half, int size, int... at>
RUNNER_INLINE Units interleave(Units a, Units b, std::integer_sequence<int, at...>) {
  return __builtin_shufflevector(
      a, b, (at / 4 * 4 + half * 2 + at % 4 / (2 * size) * size + at % size + at / size % 2 * kWidth)...);
}
template <int half, int size>
RUNNER_INLINE Units interleave(Units a, Units b) {
  return interleave<half, size>(a, b, std::make_integer_sequence<int, kWidth>{});
}

// Unit i of kWidth rows, for i in [0, 4).
struct FourUnits {
  Units of[4];
};
template <class T>
RUNNER_INLINE FourUnits four_units(const T* b, int64_t stride) {
  const Units row[4] = {every_fourth_row(b, stride), every_fourth_row(b + stride, stride),
                        every_fourth_row(b + 2 * stride, stride), every_fourth_row(b + 3 * stride, stride)};
  const Units low01 = interleave<0, 1>(row[0], row[1]), high01 = interleave<1, 1>(row[0], row[1]);
  const Units low23 = interleave<0, 1>(row[2], row[3]), high23 = interleave<1, 1>(row[2], row[3]);
  return {{interleave<0, 2>(low01, low23), interleave<1, 2>(low01, low23), interleave<0, 2>(high01, high23),
           interleave<1, 2>(high01, high23)}};
}

RUNNER_INLINE void add_unit(Vector& sum, const float* x, Units unit, const float* /*b*/) {
  sum += x[0] * bits_as<Vector>(unit);
}
RUNNER_INLINE void add_unit(Vector& sum, const float* x, Units unit, const uint16_t* /*b*/) {
  sum += x[0] * bits_as<Vector>(unit << 16);
  sum += x[1] * bits_as<Vector>(unit & 0xffff0000u);
}

// `groups` times kWidth columns. Two groups hide the latency of the chains.
template <class T, int... group>
RUNNER_INLINE void dot_groups(float* y, const MatvecBlock& m, const T* b, std::integer_sequence<int, group...>) {
  constexpr int64_t kPerUnit = 4 / sizeof(T), kStep = 4 * kPerUnit;
  constexpr int64_t kCols = sizeof...(group) * kWidth;
  Vector sums[sizeof...(group)] = {};
  int64_t k = 0;
  const auto add_step = [&](int64_t at) {
    const FourUnits units[] = {four_units(b + int64_t{group} * kWidth * m.stride + at, m.stride)...};
    for (int i = 0; i < 4; ++i) (add_unit(sums[group], m.x + at + i * kPerUnit, units[group].of[i], b), ...);
  };
  // Prefetches the next columns in the order of their addresses, which is the fastest for memory.
  for (; k + kLine<T> <= m.inner; k += kLine<T>) {
    for (int64_t i = 0; i < kCols; ++i) __builtin_prefetch(b + kCols * m.stride + kCols * k + i * kLine<T>, 0, 2);
    for (int64_t i = 0; i < kLine<T>; i += kStep) add_step(k + i);
  }
  for (; k + kStep <= m.inner; k += kStep) add_step(k);
  for (; k < m.inner; ++k)
    for (int i = 0; i < kWidth; ++i)
      ((sums[group][i] = add_product(sums[group][i], m.x[k], value_at(b + int64_t{group * kWidth + i} * m.stride + k))),
       ...);
  std::memcpy(y, sums, sizeof sums);
}

// Columns of a page and more compete for few sets of the caches, so fewer of them are read at a time.
template <class T>
void multiply_columns(const MatvecBlock& m) {
  constexpr size_t kPage = 4096;
  const bool has_long_columns = static_cast<size_t>(m.inner) * sizeof(T) >= kPage;
  const T* b = static_cast<const T*>(m.b);
  int64_t j = 0;
  for (; !has_long_columns && j + 2 * kWidth <= m.cols; j += 2 * kWidth)
    dot_groups(m.y + j, m, b + j * m.stride, std::make_integer_sequence<int, 2>{});
  for (; j + kWidth <= m.cols; j += kWidth)
    dot_groups(m.y + j, m, b + j * m.stride, std::make_integer_sequence<int, 1>{});
  for (; j < m.cols; ++j) {
    float sum = 0;
    for (int64_t k = 0; k < m.inner; ++k) sum = add_product(sum, m.x[k], value_at(b + j * m.stride + k));
    m.y[j] = sum;
  }
}

}  // namespace

MatvecLoops matvec_loops() {
  return {.f32 = {.by_rows = multiply_rows<float>, .by_columns = multiply_columns<float>},
          .bf16 = {.by_rows = multiply_rows<uint16_t>, .by_columns = multiply_columns<uint16_t>}};
}

}  // namespace runner::backends::RUNNER_ISA
