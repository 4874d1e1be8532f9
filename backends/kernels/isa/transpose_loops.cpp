// Transposed copies of matrices of 2- and 4-byte elements.

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/transpose.h"

namespace runner::backends::RUNNER_ISA {

namespace {

// Reads one cache line of each source row at a time: rows that are a power of two apart share cache sets, so a line
// must be used completely before the next one is read.
template <class T>
void transpose(void* target, int64_t dst_stride, const void* source, int64_t src_stride, int64_t rows, int64_t cols) {
  constexpr int64_t kSide = kSquare<T>, kLine = 64 / sizeof(T);
  T* dst = static_cast<T*>(target);
  const T* src = static_cast<const T*>(source);
  const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  for (int64_t line = 0; line < whole_cols; line += kLine)
    for (int64_t i = 0; i < whole_rows; i += kSide)
      for (int64_t j = line; j < line + kLine && j < whole_cols; j += kSide)
        transpose_square(dst + j * dst_stride + i, dst_stride, src + i * src_stride + j, src_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) dst[j * dst_stride + i] = src[i * src_stride + j];
}

}  // namespace

const TransposeLoops& transpose_loops() {
  static constexpr TransposeLoops kTable = {transpose<uint16_t>, transpose<uint32_t>};
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
