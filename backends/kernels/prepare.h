// Helpers for preparing kernels: Kernels from functions, scratch memory, products, sums of parts, chunks of work
// (part_of in rounding.h), and rounding of accumulators.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"
#include "backends/tensor/alignment.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

// Returns a kernel that calls run(params, arguments).
template <auto run, class Params>
Kernel make_kernel(std::string name, Params params, size_t scratch_bytes = 0) {
  return {
      .name = std::move(name),
      .run = [](const void* p, const KernelArguments& arguments) { run(*static_cast<const Params*>(p), arguments); },
      .params = std::make_shared<const Params>(std::move(params)),
      .scratch_bytes = scratch_bytes};
}

// Typed pointers to the buffers of a kernel.
template <class T>
const T* operand(const KernelArguments& arguments, size_t index) {
  return reinterpret_cast<const T*>(arguments.operands[index]);
}
template <class T>
T* result(const KernelArguments& arguments, size_t index = 0) {
  return reinterpret_cast<T*>(arguments.results[index]);
}

// Scratch memory, taken piece by piece; without a start it only counts.
class ScratchRoom {
 public:
  explicit ScratchRoom(std::byte* start) : start_(start) {}

  template <class T>
  T* take(int64_t elems) {
    const size_t at = size_;
    size_ += aligned(static_cast<size_t>(elems) * sizeof(T));
    return start_ == nullptr ? nullptr : reinterpret_cast<T*>(start_ + at);
  }
  size_t size() const { return size_; }

 private:
  std::byte* start_;
  size_t size_ = 0;
};

// The loops of products of T: float, double, or Bf16Pair if there are pair_loops().
template <class T>
const MatmulLoops<T>& matmul_loops() {
  if constexpr (std::is_same_v<T, Bf16Pair>)
    return pair_loops()->products;
  else
    return loops().matmul.of<T>();
}

template <class T>
struct MatrixView {
  T* data;
  int64_t row_stride, col_stride = 1;  // in elements
};

// c (rows, cols) = a (rows, inner) b (inner, cols), or is added to c, whose rows are contiguous. `panels`: room for
// MatmulLoops::panel_elems.
template <class T>
void multiply_views(const MatrixView<SumOf<T>>& c, const MatrixView<const T>& a, const MatrixView<const T>& b,
                    int64_t rows, int64_t cols, int64_t inner, T* panels, bool add) {
  if constexpr (std::is_same_v<T, float>) {
    const bool by_rows = b.col_stride == 1;
    if (rows == 1 && !add && a.col_stride == 1 && (by_rows || b.row_stride == 1)) {  // the same bits, without panels
      const MatvecLoops::ByLayout& multiply = loops().matvec.f32;
      return (by_rows ? multiply.by_rows : multiply.by_columns)({.y = c.data,
                                                                 .x = a.data,
                                                                 .b = b.data,
                                                                 .stride = by_rows ? b.row_stride : b.col_stride,
                                                                 .cols = cols,
                                                                 .inner = inner});
    }
  }
  matmul_loops<T>().multiply({.c = c.data,
                              .a = a.data,
                              .b = b.data,
                              .panels = panels,
                              .c_stride = c.row_stride,
                              .a_row_stride = a.row_stride,
                              .a_k_stride = a.col_stride,
                              .b_k_stride = b.row_stride,
                              .b_col_stride = b.col_stride,
                              .rows = rows,
                              .cols = cols,
                              .inner = inner,
                              .add = add});
}

// The same with the first rows and columns of a matrix of `packed_inner` rows that MatmulLoops::pack() has packed.
template <class T>
void multiply_packed(const MatrixView<SumOf<T>>& c, const MatrixView<const T>& a, T* packed, int64_t packed_inner,
                     int64_t rows, int64_t cols, int64_t inner) {
  matmul_loops<T>().multiply({.c = c.data,
                              .a = a.data,
                              .b = nullptr,
                              .panels = packed,
                              .c_stride = c.row_stride,
                              .a_row_stride = a.row_stride,
                              .a_k_stride = a.col_stride,
                              .b_k_stride = 0,
                              .b_col_stride = 0,
                              .rows = rows,
                              .cols = cols,
                              .inner = inner,
                              .packed_inner = packed_inner});
}

// x[i] += y[i] for floats or doubles.
template <class T>
void add_elements(T* x, const T* y, int64_t n) {
  constexpr Compute kCompute = std::is_same_v<T, double> ? Compute::kF64 : Compute::kF32;
  loops().eltwise.apply[static_cast<size_t>(Op::kAdd)][static_cast<size_t>(kCompute)](x, x, y, nullptr, n);
}

// Adds the sums of `parts` parts, `stride` elements apart, to those of the first, in order. Then calls finish(first, n)
// for each piece of the `elems` elements.
template <class T, class Finish>
void add_parts(WorkerPool& pool, T* sums, int64_t parts, int64_t stride, int64_t elems, const Finish& finish) {
  constexpr int64_t kPiece = 16 << 10;
  pool.parallel_for(ceil_div(elems, kPiece), [&](int64_t piece) {
    const int64_t first = piece * kPiece, n = std::min(kPiece, elems - first);
    for (int64_t part = 1; part < parts; ++part) add_elements(sums + first, sums + part * stride + first, n);
    finish(first, n);
  });
}

// Number of chunks for `work_ns` of work that consists of `pieces`: 1 below 20 µs, else one per 10 µs, at most 64.
int64_t chunk_count(double work_ns, int64_t pieces);

// Throws Error(kRun) if a mask of attention weights (B, H, T, S) is too large for HeadDropout (philox.h).
void check_weights_mask(Op op, const Shape& weights, int64_t layer);

// Rounds n accumulators to dtype `to` and stores them.
void store_rounded(Compute from, const std::byte* values, int64_t n, DType to, std::byte* target);

}  // namespace runner::backends
