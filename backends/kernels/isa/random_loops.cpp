// Dropout masks: blocks of Philox side by side.

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/vector_loop.h"

namespace runner::backends::RUNNER_ISA {

namespace {

void dropout(float* out, int64_t n, const DropoutStream& stream, uint64_t threshold, float kept) {
  const DropoutStream s = stream;
  const int64_t blocks = n / 4;
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < blocks; ++i) {
    const PhiloxCounter words = s.block(static_cast<uint32_t>(i));
    out[4 * i] = words[0] < threshold ? 0.0f : kept;
    out[4 * i + 1] = words[1] < threshold ? 0.0f : kept;
    out[4 * i + 2] = words[2] < threshold ? 0.0f : kept;
    out[4 * i + 3] = words[3] < threshold ? 0.0f : kept;
  }
  const PhiloxCounter words = s.block(static_cast<uint32_t>(blocks));
  for (int64_t e = 4 * blocks; e < n; ++e)
    out[e] = words[static_cast<size_t>(e - 4 * blocks)] < threshold ? 0.0f : kept;
}

}  // namespace

DropoutLoop dropout_loop() {
  return dropout;
}

}  // namespace runner::backends::RUNNER_ISA
