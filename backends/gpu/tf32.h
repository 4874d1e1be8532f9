// Products of f32 as tensor cores make them where gpu.allow_tf32 is set: of operands that are rounded to tf32, which
// has f32's exponent and 10 bits behind the point; sums stay f32.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends::gpu {

// To the nearest, ties to even; zeros of either sign, infinities and NaN stay.  x: f32.
Value rounded_to_tf32(Value x);

// The Program with such products.
Program with_tf32_products(const Program& program);

}  // namespace runner::backends::gpu
