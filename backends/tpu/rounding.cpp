#include "backends/tpu/rounding.h"

#include "backends/graph/ops.h"

namespace runner::backends::tpu {

Value rounded_to_bf16(Value x) {
  // Halfway between the largest subnormal and the smallest normal number: a tie, which goes to the latter.
  constexpr double kLeast = 0x1p-126 - 0x1p-134;
  const Value vanishes = ops::lt(ops::abs(x), kLeast);
  return ops::cast(ops::where(vanishes, ops::mul(x, 0.0), x), DType::kBf16);
}

}  // namespace runner::backends::tpu
