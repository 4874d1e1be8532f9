// Splits a Program into operations, each a Program of its own that runs alone without tracing (tpu.eager).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

struct SplitOp {
  ValueId node;                   // node of the original Program
  std::vector<ValueId> operands;  // distinct original values that it reads: the inputs of `program`, in order
  Program program;                // inputs, inlined constants and broadcasts, and the node as the last; no outputs
};

// By node: whether the node is inlined into the operations that read it. True for constants, and for broadcasts that
// only element-wise operations read.
std::vector<char> parts_of_readers(const Program& program);

// How an operation declares a tensor that is an input of the original Program.
enum class TensorInputs : uint8_t {
  kAsDeclared,  // as the original Program does: batch or state
  kAlike,       // as a state, like results of other operations: it is on the device
};

// Returns one operation per node that is neither an input nor inlined (`is_part`), in node order.
std::vector<SplitOp> split_into_ops(const Program& program, const std::vector<char>& is_part, TensorInputs tensors);

}  // namespace runner::backends::tpu
