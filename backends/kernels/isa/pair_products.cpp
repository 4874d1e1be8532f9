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

void round(uint16_t* out, const float* x, float scale, int64_t n) {
  constexpr int64_t kWidth = 16;
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < n; i += kWidth) {
    const auto mask = static_cast<__mmask16>(n - i < kWidth ? (1u << (n - i)) - 1u : 0xffffu);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor));
    _mm256_mask_storeu_epi16(out + i, mask, reinterpret_cast<__m256i>(rounded));
  }
}

constexpr PairLoops kTable = {kMatmulTable<Bf16Pair>, interleave, round};

}  // namespace

const PairLoops& pair_loops() {
  return kTable;
}

}  // namespace runner::backends::RUNNER_ISA
