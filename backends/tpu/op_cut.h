// A Program cut into operations, each a Program of its own: what runs alone where nothing is traced (tpu.eager).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

struct CutOp {
  ValueId node;                   // of the Program
  std::vector<ValueId> operands;  // values of it that the operation takes, each once: the inputs of `program`, in order
  Program program;  // these, what it reads that is no operation, and the node, which is its last; no outputs
};

// By node: constants, and broadcasts that element-wise operations alone read.  They are part of what reads them.
std::vector<char> parts_of_readers(const Program& program);

// How an operation takes a tensor that is an input of the Program.
enum class TensorInputs : uint8_t {
  kAsDeclared,  // of the batch or a state, as it is handed over
  kAlike,       // as a state, which a result of another operation is as well: it is on the device
};

// All but inputs and what is part of readers, in the order of the nodes.
std::vector<CutOp> cut_into_ops(const Program& program, const std::vector<char>& is_part, TensorInputs tensors);

}  // namespace runner::backends::tpu
