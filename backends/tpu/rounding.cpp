#include <array>
#include <cmath>
#include <cstddef>

#include "backends/ir/ops.h"
#include "backends/tensor/float16.h"
#include "backends/tpu/numerics.h"

namespace runner::backends::tpu {
namespace {

// Halfway between the largest subnormal and the smallest normal bf16. A tie rounds to the normal number.
constexpr float kMinMagnitude = 0x1p-126F - 0x1p-134F;

}  // namespace

Value rounded_to_bf16(Value x) {
  const Value vanishes = ops::lt(ops::abs(x), kMinMagnitude);
  return ops::cast(ops::where(vanishes, ops::mul(x, 0.0), x), DType::kBf16);
}

uint16_t to_bf16(float x) {
  return f32_to_bf16(std::fabs(x) < kMinMagnitude ? std::copysign(0.0F, x) : x);
}

double held_in(DType dtype, double value) {
  std::array<std::byte, sizeof(double)> element;
  store_element(dtype, value, element.data());
  return load_element(dtype, element.data());
}

double held_on_device(DType dtype, double value) {
  const bool vanishes = dtype == DType::kBf16 && std::fabs(value) < kMinMagnitude;
  return vanishes ? std::copysign(0.0, value) : held_in(dtype, value);
}

}  // namespace runner::backends::tpu
