// Fused element-wise groups: a straight-line program over virtual registers, run block by block so that intermediate
// values stay in the L1 cache.
//
// Registers are numbered: inputs from 0, then constants, then one per instruction. Each instruction computes in the
// compute type of the group (f32 for f32, bf16, f16 and bool; f64; i64 for integers) and rounds to its own dtype, so a
// fused group gives the same bits as its ops one by one. A group whose code is in the table of isa/named_loops.cpp, as
// a whole or in parts, runs as compiled loops with the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/ir/op.h"
#include "backends/kernels/kernel.h"
#include "backends/tensor/shape.h"

namespace runner::backends {

struct EltwiseInput {
  DType dtype;
  // In elements, by axis of the group's shape; 0 where the input is broadcast.
  std::array<int64_t, Shape::kMaxRank> strides{};
};

struct EltwiseInstruction {
  Op op;                                       // of kind kElementwise
  DType dtype;                                 // of the result
  std::array<int16_t, 3> sources{-1, -1, -1};  // registers, not all constants
};

struct EltwiseGroup {
  static constexpr size_t kMaxRegisters = 256;  // inputs, constants and instructions together

  Shape shape;  // iteration space; outputs are contiguous in it
  std::vector<EltwiseInput> inputs;
  std::vector<double> constants;  // already rounded to the dtype in which they were recorded
  std::vector<EltwiseInstruction> code;
  std::vector<int16_t> outputs;  // registers of instructions, in the order of KernelArguments::results

  // "(f32, f32., const) r3 = mul r0 r1; r4 = gt:bool r3 r2 -> r3, r4". RUNNER_DEBUG prints it, and compiled loops are
  // found by it. After the dtype of an input, "." means one value per row, "~" a stride within the row.
  std::string to_string() const;
};

// Operand i is input i. A group has at most kMaxRegisters registers (asserted). A result may share its buffer with a
// contiguous input of the same element size.
Kernel prepare_eltwise(const EltwiseGroup& group);

// The same, one element at a time (reference.cpp). Tests compare with it.
Kernel prepare_reference_eltwise(const EltwiseGroup& group);

// Whether ops of these dtypes have the same compute type, so that they may be in one group.
bool same_compute_type(DType a, DType b);

}  // namespace runner::backends
