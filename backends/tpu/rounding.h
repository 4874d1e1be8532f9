// What a TPU makes of a number when it becomes bf16: to the nearest, ties to even; overflow gives infinity, what would
// be subnormal gives a zero of the same sign, NaN stays NaN.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

// In ops.  x: floats.
Value rounded_to_bf16(Value x);
// On the host, to the bits of a bf16.
uint16_t to_bf16(float x);

// A number of the host's as any dtype has it: to the nearest, and infinity where it overflows.
double held_in(DType dtype, double value);
// The same on a TPU, which has no subnormal bf16.
double held_on_device(DType dtype, double value);

}  // namespace runner::backends::tpu
