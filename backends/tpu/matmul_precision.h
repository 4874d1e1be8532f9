// Matrix products as a TPU's matrix units (MXUs) compute them: bf16 operands, exact products, sums in f32.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

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

}  // namespace runner::backends::tpu
