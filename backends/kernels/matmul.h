// Matrix products: one file per implementation; matmul.cpp chooses.
#pragma once

#include "backends/kernels/kernel.h"

namespace runner::backends {

// `batch` products C = op(A) op(B) of contiguous row-major matrices, where op is a transposition or nothing.
struct MatmulShape {
  int64_t batch, rows, cols, inner;  // C is rows × cols
  bool transpose_a, transpose_b;

  int64_t a_elems() const { return rows * inner; }  // of one matrix
  int64_t b_elems() const { return inner * cols; }
  int64_t c_elems() const { return rows * cols; }
};
MatmulShape matmul_shape(const KernelRequest& request);

// Products of f32, or of bf16 with native instructions (accumulated in f32, rounded once if the result is bf16), as
// single-threaded oneDNN calls on tiles that depend on the shape only. `adds`: adds the third operand.
Kernel prepare_matmul_dnnl(const MatmulShape& shape, DType dtype, DType result, bool adds = false);

// Products of f32 or f64 with our own register tiles. (matmul_tiles.cpp)
Kernel prepare_matmul_tiles(const MatmulShape& shape, DType dtype);

// Whether prepare_matvec() computes a product: one of one row or column, of f32 or bf16. Its result may be either.
bool suits_matvec(const MatmulShape& shape, DType dtype, DType result);
Kernel prepare_matvec(const MatmulShape& shape, DType dtype, DType result);

}  // namespace runner::backends
