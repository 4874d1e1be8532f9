// f32 products as tensor cores compute them with gpu.allow_tf32: operands are rounded to TF32, which has f32's exponent
// and a 10-bit mantissa; sums stay f32.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends::gpu {

// Rounds to nearest, ties to even. Signed zeros, infinities and NaN are unchanged. `x`: f32, any shape.
Value rounded_to_tf32(Value x);

// Returns the Program with the operands of its f32 products rounded to TF32.
Program with_tf32_products(const Program& program);

}  // namespace runner::backends::gpu
