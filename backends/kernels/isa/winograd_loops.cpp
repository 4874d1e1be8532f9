// The linear maps of minimal filtering, F(2 × 2, 3 × 3): Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks" (2015). Each maps the columns of a small grid, then its rows, in many lanes.

#include "backends/kernels/isa/halves.h"
#include "backends/kernels/isa/loops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

constexpr int kLanes = RUNNER_VECTOR_BYTES / sizeof(float);

template <int rows, int columns>
struct Matrix {
  static constexpr int kRows = rows, kColumns = columns;

  float at[rows][columns];
};

// Named as in the paper: y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ x B)] A.
constexpr Matrix<4, 3> kG = {{{1, 0, 0}, {.5f, .5f, .5f}, {.5f, -.5f, .5f}, {0, 0, 1}}};
constexpr Matrix<4, 4> kBT = {{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}};
constexpr Matrix<2, 4> kAT = {{{1, 1, 1, 0}, {0, 1, -1, -1}}};

template <int rows, int columns>
constexpr Matrix<columns, rows> transpose_of(const Matrix<rows, columns>& m) {
  Matrix<columns, rows> t{};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) t.at[j][i] = m.at[i][j];
  return t;
}
constexpr Matrix<3, 4> kGT = transpose_of(kG);
constexpr Matrix<4, 2> kA = transpose_of(kAT);

template <int rows, int columns>
constexpr Matrix<1, columns> row_of(const Matrix<rows, columns>& m, int row) {
  Matrix<1, columns> r{};
  for (int j = 0; j < columns; ++j) r.at[0][j] = m.at[row][j];
  return r;
}
template <int row>
constexpr Matrix<1, 4> kRowOfBT = row_of(kBT, row);
template <int row>
constexpr Matrix<1, 2> kRowOfA = row_of(kA, row);

// Calls body.template operator()<i>() for i in [0, n).
template <class Body, int... i>
RUNNER_INLINE void for_constants(const Body& body, std::integer_sequence<int, i...>) {
  (body.template operator()<i>(), ...);
}
template <int n, class Body>
RUNNER_INLINE void for_constants(const Body& body) {
  for_constants(body, std::make_integer_sequence<int, n>());
}

using Lanes = Vectors<float, kLanes>;

template <int rows, int columns>
constexpr int first_factor(const Matrix<rows, columns>& m, int row) {
  int k = 0;
  while (m.at[row][k] == 0) ++k;
  return k;
}

// sum = a row of the matrix times x. Factors of zero and one cost nothing.
template <const auto& matrix, int row, int n>
RUNNER_INLINE void combine(Lanes::Vector& sum, const Lanes::Vector (&x)[n]) {
  for_constants<n>([&]<int k>() __attribute__((always_inline)) {
    constexpr float kFactor = matrix.at[row][k];
    if constexpr (kFactor != 0) {
      const Lanes::Vector term = kFactor == 1 ? x[k] : kFactor == -1 ? -x[k] : kFactor * x[k];
      sum = k == first_factor(matrix, row) ? term : sum + term;
    }
  });
}

// Where an element of a grid is: row by row, or in rows whose even and odd elements are apart.
template <int columns>
struct ByElement {
  static constexpr int64_t at(int i, int j, int64_t stride) { return (i * columns + j) * stride; }
};
struct ByParity {
  static constexpr int64_t at(int i, int j, int64_t stride) { return (i * 2 + j % 2) * stride + j / 2; }
};

// to = left · from · rightᵀ in n lanes, rounded up to whole vectors.
template <const auto& left, const auto& right, class From>
void map_grids(float* to, int64_t to_stride, const float* from, int64_t from_stride, int64_t n) {
  constexpr int kRows = left.kRows, kColumns = right.kRows, kFromRows = left.kColumns, kFromColumns = right.kColumns;
  for (int64_t lane = 0; lane < n; lane += kLanes) {
    Lanes::Vector middle[kRows][kFromColumns];
    for_constants<kFromColumns>([&]<int j>() __attribute__((always_inline)) {
      Lanes::Vector column[kFromRows];
      for_constants<kFromRows>([&]<int i>() __attribute__((always_inline)) {
        Lanes::load(column[i], from + From::at(i, j, from_stride) + lane);
      });
      for_constants<kRows>([&]<int i>() __attribute__((always_inline)) { combine<left, i>(middle[i][j], column); });
    });
    for_constants<kRows>([&]<int i>() __attribute__((always_inline)) {
      for_constants<kColumns>([&]<int j>() __attribute__((always_inline)) {
        Lanes::Vector element;
        combine<right, j>(element, middle[i]);
        Lanes::store(element, to + (i * kColumns + j) * to_stride + lane);
      });
    });
  }
}

void split(float* __restrict even, float* __restrict odd, const float* __restrict x, int64_t size, int64_t before,
           int64_t n) {
  constexpr int kPairs = 8;
  const auto clamped = [](int64_t i, int64_t least, int64_t most) { return i < least ? least : i > most ? most : i; };
  const int64_t begin = clamped((before + 1) / 2, 0, n);       // the first pair inside
  const int64_t end = clamped((size + before) / 2, begin, n);  // of whole pairs
  const auto element = [&](int64_t i) { return i >= before && i < size + before ? x[i - before] : 0; };
  const auto by_element = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      even[i] = element(2 * i);
      odd[i] = element(2 * i + 1);
    }
  };
  by_element(0, begin);
  if (end - begin < kPairs)
    by_element(begin, end);
  else
    for (int64_t i = begin; i < end; i += kPairs) {
      if (i > end - kPairs) i = end - kPairs;  // the last ones again
      typename Vectors<float, kPairs>::Halves halves;
      Vectors<float, kPairs>::load(halves, x + (2 * i - before));
      Vectors<float, kPairs>::store(halves.even, even + i);
      Vectors<float, kPairs>::store(halves.odd, odd + i);
    }
  by_element(end, n);
}

void join(float* __restrict x, const float* __restrict even, const float* __restrict odd, int64_t n) {
  for_short_pieces(n, [&]<int count>(int64_t i) {
    typename Vectors<float, count>::Halves halves;
    Vectors<float, count>::load(halves.even, even + i);
    Vectors<float, count>::load(halves.odd, odd + i);
    Vectors<float, count>::store(halves, x + 2 * i);
  });
}

}  // namespace

const WinogradLoops& winograd_loops() {
  static constexpr WinogradLoops kTable = {
      .split = split,
      .join = join,
      .weights = map_grids<kG, kG, ByElement<3>>,
      .input = map_grids<kBT, kBT, ByParity>,
      .output = map_grids<kAT, kAT, ByElement<4>>,
      .output_grad = map_grids<kA, kA, ByParity>,
      .input_rows = {map_grids<kRowOfBT<0>, kBT, ByParity>, map_grids<kRowOfBT<1>, kBT, ByParity>,
                     map_grids<kRowOfBT<2>, kBT, ByParity>, map_grids<kRowOfBT<3>, kBT, ByParity>},
      .output_grad_rows = {map_grids<kRowOfA<0>, kA, ByParity>, map_grids<kRowOfA<1>, kA, ByParity>,
                           map_grids<kRowOfA<2>, kA, ByParity>, map_grids<kRowOfA<3>, kA, ByParity>},
      .weights_grad = map_grids<kGT, kGT, ByElement<4>>};
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
