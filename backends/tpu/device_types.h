// Programs in the number types of a device, where float and double are bf16 (XLA_USE_BF16), or bf16 and float
// (XLA_DOWNCAST_BF16): no autocast and no master copy.
//
// Buffers, batches and what is read keep their logical types and hold what the device's can hold: a value is converted
// where it enters, and back where it leaves.  The engine's own accounts (owners.h) stay as they are; where they meet
// the user's numbers, they are converted.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

enum class Rounding : uint8_t {
  kPerOp,  // each op computes in f32 and rounds its result
  kFused,  // a result that element-wise ops alone read stays f32, as in a fusion whose excess precision is allowed
};

Program with_device_types(const Program& program, const DeviceTypes& types, Rounding rounding);

}  // namespace runner::backends::tpu
