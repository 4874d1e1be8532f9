// Conversion of numbers to bf16 as a TPU does it: round to nearest, ties to even. Overflow gives infinity, a result
// that would be subnormal becomes a zero of the same sign, NaN stays NaN.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

// As Program ops. `x`: floating point, any shape. Returns bf16.
Value rounded_to_bf16(Value x);
// On the host. Returns the bits of a bf16.
uint16_t to_bf16(float x);

// Returns `value` rounded to `dtype`: to nearest, infinity on overflow.
double held_in(DType dtype, double value);
// Like held_in(), but with TPU rounding: subnormal bf16 results become zero.
double held_on_device(DType dtype, double value);

}  // namespace runner::backends::tpu
