// Matrix products, one file for each way to compute them; prepare_matmul chooses.
#pragma once

#include "backends/kernels/kernel.h"

namespace runner::backends {

// `batch` products C = op(A) op(B) of row-major matrices that lie one behind the other; op transposes where asked.
struct MatmulShape {
  int64_t batch, rows, cols, inner;  // C is rows × cols
  bool transpose_a, transpose_b;

  int64_t a_elems() const { return rows * inner; }  // of one matrix
  int64_t b_elems() const { return inner * cols; }
  int64_t c_elems() const { return rows * cols; }
};
MatmulShape matmul_shape(const KernelRequest& request);

// f32, or bf16 by native instructions (accumulated in f32, rounded once where the result is bf16), as single-threaded
// oneDNN products over tiles that depend on the shape alone.  `adds`: a third operand, to the sums.  (matmul_dnnl.cpp,
// the only file that knows oneDNN)
Kernel prepare_matmul_dnnl(const MatmulShape& shape, DType dtype, DType result, bool adds = false);

// f32 or f64 by our own register tiles.  (matmul_tiles.cpp)
Kernel prepare_matmul_tiles(const MatmulShape& shape, DType dtype);

}  // namespace runner::backends
