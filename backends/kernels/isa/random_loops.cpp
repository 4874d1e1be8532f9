// Dropout masks and random tensors, from several Philox blocks at a time.

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/vector_math.h"

namespace runner::backends::RUNNER_ISA {

namespace {

namespace vm = vector_math;

// out[0, n) = of(words 0…3) for the blocks of the stream, starting with `first`. A call of `of` writes 4 elements.
template <class Stream, class Of>
inline __attribute__((always_inline)) void fill(float* out, int64_t n, const Stream& stream, uint32_t first, Of of) {
  const Stream s = stream;
  const int64_t blocks = n / 4;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < blocks; ++i) of(s.block(first + static_cast<uint32_t>(i)), out + 4 * i);
  if (n == 4 * blocks) return;
  float last[4];
  of(s.block(first + static_cast<uint32_t>(blocks)), last);
  for (int64_t e = 4 * blocks; e < n; ++e) out[e] = last[e - 4 * blocks];
}

void dropout(float* out, int64_t n, const DropoutStream& stream, uint32_t first, uint64_t threshold, float kept) {
  fill(out, n, stream, first, [=](const PhiloxCounter& words, float* to) {
    to[0] = words[0] < threshold ? 0.0f : kept;
    to[1] = words[1] < threshold ? 0.0f : kept;
    to[2] = words[2] < threshold ? 0.0f : kept;
    to[3] = words[3] < threshold ? 0.0f : kept;
  });
}

RUNNER_INLINE float unit(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

void uniform(float* out, int64_t n, const TensorStream& stream, uint32_t first) {
  fill(out, n, stream, first, [](const PhiloxCounter& words, float* to) {
    to[0] = unit(words[0]);
    to[1] = unit(words[1]);
    to[2] = unit(words[2]);
    to[3] = unit(words[3]);
  });
}

// Box and Muller, "A note on the generation of random normal deviates", 1958. u is in [2⁻³², 1]; 31 bits of the word
// are converted to f32 with one rounding in every instruction set.
RUNNER_INLINE void normal_pair(uint32_t size, uint32_t angle, float* to) {
  const float u = static_cast<float>(static_cast<int32_t>(size >> 1)) * 0x1p-31f + 0x1p-32f;
  const float radius = std::sqrt(-2.0f * vm::log(u));
  const vm::SinCos at = vm::sin_cos(angle);
  to[0] = radius * at.cos;
  to[1] = radius * at.sin;
}

void normal(float* out, int64_t n, const TensorStream& stream, uint32_t first) {
  fill(out, n, stream, first, [](const PhiloxCounter& words, float* to) {
    normal_pair(words[0], words[1], to);
    normal_pair(words[2], words[3], to + 2);
  });
}

void initial_uniform(float* out, int64_t n, const ElementStream& stream, uint64_t first, float scale) {
  const ElementStream s = stream;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxCounter words = s.block(first + static_cast<uint64_t>(i));
    out[i] = (2 * unit(words[0]) - 1) * scale;
  }
}

// √(−2 ln(1 − u)) cos 2πv of two numbers in [0, 1), in f64; 1 − u keeps the logarithm finite.
void initial_normal(float* out, int64_t n, const ElementStream& stream, uint64_t first, float scale) {
  constexpr double kLn2 = 0.69314718055994531;
  const ElementStream s = stream;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxCounter words = s.block(first + static_cast<uint64_t>(i));
    const double u = static_cast<double>(unit(words[0])), v = static_cast<double>(unit(words[1]));
    const double radius = std::sqrt(-2.0 * kLn2 * vm::log2(1.0 - u));
    out[i] = static_cast<float>(radius * vm::cos_of_turns(v)) * scale;
  }
}

}  // namespace

RandomLoops random_loops() {
  return {dropout, uniform, normal, initial_uniform, initial_normal};
}

}  // namespace runner::backends::RUNNER_ISA
