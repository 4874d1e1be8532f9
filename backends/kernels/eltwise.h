// Fused element-wise groups: a straight-line program over virtual registers, run block by block so that what lies
// between the instructions stays in the first-level cache.
//
// Register numbering: inputs 0…, then constants, then one register per instruction.  Each instruction computes in the
// group's compute type (f32 for f32, bf16, f16 and bool; f64; i64 for integers) and rounds to its own dtype, so a fused
// group gives the bits that the same ops give one by one.  Groups whose code stands in the table of
// isa/named_loops.cpp, whole or in parts, run as compiled loops with the same bits.
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
  // In elements, for each axis of the group's shape; 0 where the input is broadcast.
  std::array<int64_t, Shape::kMaxRank> strides{};
};

struct EltwiseInstruction {
  Op op;                                       // of class kElementwise
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

  // "(f32, f32., const) r3 = mul r0 r1; r4 = gt:bool r3 r2 -> r3, r4": what RUNNER_DEBUG prints and what names are
  // matched on.  After an input's dtype "." says that it has one value for a row, "~" that it is strided within a row.
  std::string to_string() const;
};

// Operand i is input i.  More than kMaxRegisters registers are a programmer error.  A result may share its buffer with
// a contiguous input of the same element size.
Kernel prepare_eltwise(const EltwiseGroup& group);

// The same by plain loops over one element at a time (reference.cpp): the oracle of tests.
Kernel prepare_reference_eltwise(const EltwiseGroup& group);

// True where ops of these dtypes compute in one type and may stand in one group.
bool same_compute_type(DType a, DType b);

}  // namespace runner::backends
