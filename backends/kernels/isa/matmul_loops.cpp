// Matrix products of f32 and f64, for products too small for oneDNN and for f64, which it lacks.

#include "backends/kernels/isa/matmul_tiles.h"

namespace runner::backends::RUNNER_ISA {

const MatmulLoops<float>& matmul_loops_f32() {
  return kMatmulTable<float>;
}
const MatmulLoops<double>& matmul_loops_f64() {
  return kMatmulTable<double>;
}

}  // namespace runner::backends::RUNNER_ISA
