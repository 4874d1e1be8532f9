// Numbers as a TPU computes them: rounding to bf16, matrix products, and the floating-point types of the device.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Conversion of numbers to bf16 as a TPU does it: round to nearest, ties to even. Overflow gives infinity, a result
// that would be subnormal becomes a zero of the same sign, NaN stays NaN.

// As Program ops. `x`: floating point, any shape. Returns bf16.
Value rounded_to_bf16(Value x);
// On the host. Returns the bits of a bf16.
uint16_t to_bf16(float x);

// Returns `value` rounded to `dtype`: to nearest, infinity on overflow.
double held_in(DType dtype, double value);
// Like held_in(), but with TPU rounding: subnormal bf16 results become zero.
double held_on_device(DType dtype, double value);

// Matrix products as a TPU's matrix units (MXUs) compute them: bf16 operands, exact products, sums in f32.

// How an f32 product is built from bf16 products; bf16 products always take one pass.
enum class MatmulPrecision : uint8_t { kDefault, kHigh, kHighest };
int passes_of(MatmulPrecision precision);  // 1, 3, 6

// Whether the node is a product with more than one row and more than one column. Others run on the vector units and are
// exact.
bool is_matrix_product(const Program& program, ValueId id);

// Returns the Program with its f32 matrix products replaced by bf16 products. hi(x) is x rounded to bf16 and lo(x) is
// the remainder rounded to bf16:
//     default   hi(a)·hi(b)
//     high      hi(a)·hi(b) + (hi(a)·lo(b) + lo(a)·hi(b)); NaN if hi is infinite
//     highest   unchanged: six passes have the precision of the host's f32
// An operand of several products is rounded once. An operand with a rounded copy among the inputs (Input::rounded_of)
// is read from that copy.
Program with_matmul_precision(const Program& program, MatmulPrecision precision);

// Rewrites Programs to the floating-point types of a device: f32 and f64 become bf16 (XLA_USE_BF16), or bf16 and f32
// (XLA_DOWNCAST_BF16). There is no autocast and no master copy.
//
// Buffers, batches and values read back keep their logical types but contain only values that the device type can
// represent: values are converted where they enter the device computation and where they leave it. Engine bookkeeping
// (owners.h) keeps its types; it is converted where it meets user tensors.
enum class Rounding : uint8_t {
  kPerOp,  // each op computes in f32 and rounds its result
  kFused,  // a result read only by element-wise ops stays f32, like a fusion with excess precision allowed
};

Program with_device_types(const Program& program, const DeviceTypes& types, Rounding rounding);

}  // namespace runner::backends::tpu
