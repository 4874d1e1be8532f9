// Products as the matrix units of a TPU compute them: operands of bf16, exact products, sums in f32.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

// How products of f32 are made of products of bf16; those of bf16 always take one pass.
enum class MatmulPrecision : uint8_t { kDefault, kHigh, kHighest };
int passes_of(MatmulPrecision precision);  // 1, 3, 6

// Whether a node is a product that has more than one row and more than one column; others are exact, on the vector
// units.
bool is_matrix_product(const Program& program, ValueId id);

// The Program with its matrix products of f32 made of products of bf16, where hi(x) is x rounded and lo(x) the rounded
// rest:
//     default   hi(a)·hi(b)
//     high      hi(a)·hi(b) + (hi(a)·lo(b) + lo(a)·hi(b)); NaN where hi is infinite
//     highest   as it is: six passes have the precision of the host's f32
// A value that is an operand of several products is rounded once, and one that has a rounded copy among the inputs
// (Input::rounded_of) is read there.
Program with_matmul_precision(const Program& program, MatmulPrecision precision);

}  // namespace runner::backends::tpu
