// Transposed copies of matrices of 2- and 4-byte elements.

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/transpose.h"

namespace runner::backends::RUNNER_ISA {

namespace {

template <int side, class T>
RUNNER_INLINE void transpose_squares(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows,
                                     int64_t cols) {
  for (int64_t j = 0; j < cols; j += side)
    for (int64_t i = 0; i < rows; i += side)
      transpose_square<side>(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);
}

// rows and cols are multiples of kSquare.
template <class T>
RUNNER_INLINE void transpose_squares(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t rows,
                                     int64_t cols) {
  const int64_t wide_rows = rows / kWideSquare<T> * kWideSquare<T>, wide_cols = cols / kWideSquare<T> * kWideSquare<T>;
  transpose_squares<kWideSquare<T>>(dst, dst_stride, src, src_stride, wide_rows, wide_cols);
  transpose_squares<kSquare<T>>(dst + wide_rows, dst_stride, src + wide_rows * src_stride, src_stride, rows - wide_rows,
                                wide_cols);
  transpose_squares<kSquare<T>>(dst + wide_cols * dst_stride, dst_stride, src + wide_cols, src_stride, rows,
                                cols - wide_cols);
}

// Rows a multiple of 4 KiB apart share a set of the L1 cache. So a block of a tall matrix reads whole lines of the
// source, one per row, and writes whole lines of the target, several per row.
template <class T>
void transpose(void* target, int64_t dst_stride, const void* source, int64_t src_stride, int64_t rows, int64_t cols) {
  constexpr int64_t kSide = kSquare<T>, kLine = 64 / sizeof(T), kRows = 4 * kLine;
  T* const dst = static_cast<T*>(target);
  const T* const src = static_cast<const T*>(source);
  const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  const bool is_tall = whole_rows >= kRows;
  if (!is_tall) transpose_squares(dst, dst_stride, src, src_stride, whole_rows, whole_cols);
  for (int64_t col = 0; is_tall && col < whole_cols; col += kLine)
    for (int64_t row = 0; row < whole_rows; row += kRows) {
      const int64_t block_rows = whole_rows - row < kRows ? whole_rows - row : kRows;
      const int64_t block_cols = whole_cols - col < kLine ? whole_cols - col : kLine;
      alignas(64) T block[kLine * kRows];  // transposed
      transpose_squares(block, kRows, src + row * src_stride + col, src_stride, block_rows, block_cols);
      for (int64_t j = 0; j < block_cols; ++j)
        std::memcpy(dst + (col + j) * dst_stride + row, block + j * kRows, static_cast<size_t>(block_rows) * sizeof(T));
    }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) dst[j * dst_stride + i] = src[i * src_stride + j];
}

}  // namespace

const TransposeLoops& transpose_loops() {
  static constexpr TransposeLoops kTable = {transpose<uint16_t>, transpose<uint32_t>};
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
