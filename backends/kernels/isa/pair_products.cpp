// Products of pairs of bf16, for CPUs with AVX512-BF16 only. Not one of the files that every set has (CMakeLists.txt).

#include "backends/kernels/isa/matmul_tiles.h"

namespace runner::backends::RUNNER_ISA {

namespace {

void interleave(Bf16Pair* out, const uint16_t* first, const uint16_t* second, int64_t n) {
  if (second == nullptr) {
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) out[i] = first[i];
    return;
  }
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = first[i] | static_cast<Bf16Pair>(second[i]) << 16;
}

constexpr PairLoops kTable = {kMatmulTable<Bf16Pair>, interleave};

}  // namespace

const PairLoops& pair_loops() {
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
