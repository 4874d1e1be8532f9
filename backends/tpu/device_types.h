// Rewrites Programs to the floating-point types of a device: f32 and f64 become bf16 (XLA_USE_BF16), or bf16 and f32
// (XLA_DOWNCAST_BF16). There is no autocast and no master copy.
//
// Buffers, batches and values read back keep their logical types but contain only values that the device type can
// represent: values are converted where they enter the device computation and where they leave it. Engine bookkeeping
// (owners.h) keeps its types; it is converted where it meets user tensors.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

enum class Rounding : uint8_t {
  kPerOp,  // each op computes in f32 and rounds its result
  kFused,  // a result read only by element-wise ops stays f32, like a fusion with excess precision allowed
};

Program with_device_types(const Program& program, const DeviceTypes& types, Rounding rounding);

}  // namespace runner::backends::tpu
