// Matrix products in register tiles, for a file of a table (matmul_loops.cpp, pair_products.cpp).
//
// B is packed into panels of a few vectors of columns; a tile of C stays in registers while k runs through a panel.
// Each element of C is one chain of multiply-adds in the order of k for any tile, so cutting a product does not change
// bits. Files that include this are compiled to contract a·b + c (CMakeLists.txt): sets with FMA agree with each other,
// baseline rounds twice.
#pragma once

#include <cstring>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif
#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/transpose.h"
#include "backends/kernels/isa/vector_math.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::RUNNER_ISA {

namespace {

// Rows of a tile, and vectors of its columns, which are a panel. The sums take most of the registers.
constexpr int kVectorBytes = RUNNER_VECTOR_BYTES, kTileRows = kVectorBytes == 16 ? 4 : 6,
              kPanelVectors = kVectorBytes == 64 ? 4 : 2;

// A vector of elements, and how their products with one factor are added to a vector of sums.
template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  using Sums = Vector;

  static __attribute__((always_inline)) Sums add_products(Sums sums, T factor, Vector b) { return sums + factor * b; }
};
#if defined(__AVX512BF16__)
template <>
struct Lanes<Bf16Pair> {
  typedef Bf16Pair Vector __attribute__((vector_size(kVectorBytes)));
  using Sums = Lanes<float>::Sums;

  static __attribute__((always_inline)) Sums add_products(Sums sums, Bf16Pair factor, Vector b) {
    const auto bf16 = [](Vector pairs) { return reinterpret_cast<__m512bh>(pairs); };
    return reinterpret_cast<Sums>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), bf16(Vector{} + factor), bf16(b)));
  }
};
#endif
template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
using Sums = typename Lanes<T>::Sums;

template <class T>
constexpr int64_t kWidth = kVectorBytes / sizeof(T);
template <class T>
constexpr int64_t kPanelCols = kPanelVectors* kWidth<T>;

RUNNER_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// ---- packing -------------------------------------------------------------------------------------------------------

// Packs one panel of `n` columns, padded with zeros to `width`.
template <class T>
void pack_panel(T* panel, int64_t width, const T* b, int64_t inner, int64_t n, int64_t k_stride, int64_t col_stride) {
  if (n < width) std::memset(panel, 0, static_cast<size_t>(inner * width) * sizeof(T));
  if (col_stride == 1) {
    for (int64_t k = 0; k < inner; ++k)
      std::memcpy(panel + k * width, b + k * k_stride, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  int64_t whole_k = 0, whole_n = 0;
  if constexpr (sizeof(T) == 4) {
    constexpr int64_t kSide = kSquare<T>;
    whole_k = k_stride == 1 ? inner / kSide * kSide : 0;
    whole_n = n / kSide * kSide;
    for (int64_t k = 0; k < whole_k; k += kSide)
      for (int64_t j = 0; j < whole_n; j += kSide)
        transpose_square<kSide>(panel + k * width + j, width, b + j * col_stride + k, col_stride);
  }
  for (int64_t k = 0; k < inner; ++k)
    for (int64_t j = k < whole_k ? whole_n : 0; j < n; ++j) panel[k * width + j] = b[k * k_stride + j * col_stride];
}

// ---- tiles ---------------------------------------------------------------------------------------------------------

template <class Vector, class T>
RUNNER_INLINE Vector load(const T* x) {
  Vector value;
  std::memcpy(&value, x, sizeof value);
  return value;
}

// A tile of C with `n` columns of the panel. Rows of the panel are b_stride apart.
template <class T>
struct TileArguments {
  SumOf<T>* c;
  const T* a;
  const T* b;
  int64_t c_stride, row_stride, k_stride, b_stride, n, inner;
  bool add;  // adds to the contents of C
};

// Every index is a constant, so that the sums stay in registers. A narrow tile loads and stores them through `edge`,
// because sums that live across a call would be in memory inside the loop, too.
template <class T, int vectors, int... row, int... vector>
RUNNER_INLINE void run_tile(TileArguments<T> t, std::integer_sequence<int, row...>,
                            std::integer_sequence<int, vector...>) {
  constexpr int64_t kCols = vectors * kWidth<T>;
  SumOf<T> edge[sizeof...(row) * kCols];
  const bool narrow = t.n < kCols;
  const auto row_bytes = static_cast<size_t>(t.n) * sizeof(SumOf<T>);
  if (narrow && t.add) (std::memcpy(edge + row * kCols, t.c + row * t.c_stride, row_bytes), ...);
  SumOf<T>* target = narrow ? edge : t.c;
  const int64_t stride = narrow ? kCols : t.c_stride;

  Sums<T> sums[sizeof...(row)][vectors];
  const auto clear = [&](Sums<T>(&sum)[vectors]) { ((sum[vector] = Sums<T>{}), ...); };
  const auto start = [&](Sums<T>(&sum)[vectors], const SumOf<T>* from) {
    ((sum[vector] = load<Sums<T>>(from + vector * kWidth<T>)), ...);
  };
  if (t.add)
    (start(sums[row], target + row * stride), ...);
  else
    (clear(sums[row]), ...);
  for (int64_t k = 0; k < t.inner; ++k, t.b += t.b_stride, t.a += t.k_stride) {
    const Vector<T> b[vectors] = {load<Vector<T>>(t.b + vector * kWidth<T>)...};
    const auto step = [&](Sums<T>(&sum)[vectors], T factor) {
      ((sum[vector] = Lanes<T>::add_products(sum[vector], factor, b[vector])), ...);
    };
    (step(sums[row], t.a[row * t.row_stride]), ...);
  }
  const auto finish = [&](SumOf<T>* to, const Sums<T>(&sum)[vectors]) {
    (std::memcpy(to + vector * kWidth<T>, &sum[vector], sizeof sum[vector]), ...);
  };
  (finish(target + row * stride, sums[row]), ...);
  if (narrow) (std::memcpy(t.c + row * t.c_stride, edge + row * kCols, row_bytes), ...);
}

template <class T, int rows, int vectors>
void tile(const TileArguments<T>& t) {
  run_tile<T, vectors>(t, std::make_integer_sequence<int, rows>{}, std::make_integer_sequence<int, vectors>{});
}

// Tiles of 1 … kTileRows rows by 1 … kPanelVectors vectors.
template <class T>
struct Tiles {
  using Tile = void (*)(const TileArguments<T>&);
  Tile table[kPanelVectors][kTileRows];

  template <int vectors, int... rows>
  constexpr void fill(std::integer_sequence<int, rows...>) {
    ((table[vectors - 1][rows] = tile<T, rows + 1, vectors>), ...);
  }
  template <int... vectors>
  constexpr void fill_all(std::integer_sequence<int, vectors...>) {
    (fill<vectors + 1>(std::make_integer_sequence<int, kTileRows>{}), ...);
  }
  constexpr Tiles() : table{} { fill_all(std::make_integer_sequence<int, kPanelVectors>{}); }
};
template <class T>
constexpr Tiles<T> kTiles;

// ---- blocks --------------------------------------------------------------------------------------------------------

// A block of B, of this many rows and panels, stays in the L2 cache.
constexpr int64_t kBlockInner = 256, kBlockRowBytes = 1536;
constexpr int64_t kBlockPanels = kBlockRowBytes / (kPanelVectors * kVectorBytes);
template <class T>
constexpr int64_t kBlockCols = kBlockPanels* kPanelCols<T>;

// A panel of B: packed, or in B itself.
template <class T>
struct Panel {
  const T* data;
  int64_t stride, cols;
  int vectors;
};

// The panels of B for columns from `col` and rows from `k` on. They are read in place if their rows are contiguous and
// they are either read once or twice, or small enough for the cache.
template <class T>
int prepare_panels(const MatmulBlock<T>& m, int64_t col, int64_t cols, int64_t k, int64_t inner,
                   Panel<T> (&panels)[kBlockPanels]) {
  constexpr int64_t kCachedElems = 8192;
  const bool in_place =
      m.in_place || (m.b_col_stride == 1 && (m.rows <= 2 * kTileRows || m.inner * m.b_k_stride <= kCachedElems));
  T* room = m.panels;
  int count = 0;
  for (int64_t j = col; j < col + cols; j += kPanelCols<T>, ++count) {
    const int64_t n = smaller(kPanelCols<T>, col + cols - j);
    const int vectors = static_cast<int>((n + kWidth<T> - 1) / kWidth<T>);
    if (m.packed_inner > 0) {
      panels[count] = {m.panels + j * m.packed_inner + k * kPanelCols<T>, kPanelCols<T>, n, vectors};
      continue;
    }
    const T* const b = m.b + j * m.b_col_stride + k * m.b_k_stride;
    const int64_t width = vectors * kWidth<T>;
    panels[count] = {b, m.b_k_stride, n, vectors};
    if (in_place && n == width) continue;
    pack_panel(room, width, b, inner, n, m.b_k_stride, m.b_col_stride);
    panels[count] = {room, width, n, vectors};
    room += inner * width;
  }
  return count;
}

// All panels of B one after the other, each with the whole inner axis.
template <class T>
void pack(T* packed, const T* b, int64_t cols, int64_t inner, int64_t k_stride, int64_t col_stride) {
  for (int64_t j = 0; j < cols; j += kPanelCols<T>)
    pack_panel(packed + j * inner, kPanelCols<T>, b + j * col_stride, inner, smaller(kPanelCols<T>, cols - j), k_stride,
               col_stride);
}
template <class T>
int64_t packed_elems(int64_t cols, int64_t inner) {
  return round_up(cols, kPanelCols<T>) * inner;
}

template <class T>
void multiply(const MatmulBlock<T>& m) {
  for (int64_t j = 0; j < m.cols; j += kBlockCols<T>)
    for (int64_t k = 0; k < m.inner; k += kBlockInner) {
      const int64_t cols = smaller(kBlockCols<T>, m.cols - j), inner = smaller(kBlockInner, m.inner - k);
      Panel<T> panels[kBlockPanels];
      const int count = prepare_panels(m, j, cols, k, inner, panels);
      for (int64_t i = 0; i < m.rows; i += kTileRows) {
        const int64_t rows = smaller(kTileRows, m.rows - i);
        const T* a = m.a + i * m.a_row_stride + k * m.a_k_stride;
        SumOf<T>* c = m.c + i * m.c_stride + j;
        for (int p = 0; p < count; ++p, c += kPanelCols<T>)
          kTiles<T>.table[panels[p].vectors - 1][rows - 1]({c, a, panels[p].data, m.c_stride, m.a_row_stride,
                                                            m.a_k_stride, panels[p].stride, panels[p].cols, inner,
                                                            k > 0 || m.add});
      }
    }
}

template <class T>
int64_t panel_elems(int64_t cols, int64_t inner) {
  const int64_t padded = round_up(cols, kWidth<T>);
  return smaller(inner, kBlockInner) * smaller(padded, kBlockCols<T>);
}

template <class T>
constexpr MatmulLoops<T> kMatmulTable = {panel_elems<T>, packed_elems<T>, pack<T>, multiply<T>};

}  // namespace

}  // namespace runner::backends::RUNNER_ISA
