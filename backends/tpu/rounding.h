// What a TPU makes of a number when it becomes bf16, in ops.
#pragma once

#include "backends/graph/program.h"

namespace runner::backends::tpu {

// x: floats.  To the nearest bf16, ties to even; overflow gives infinity, what would be subnormal gives a zero of the
// same sign, NaN stays NaN.
Value rounded_to_bf16(Value x);

}  // namespace runner::backends::tpu
