// Names of our ops in PyTorch/XLA's IR and in HLO.
#pragma once

#include <string_view>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

struct OpNames {
  Op op;
  std::string_view ir;   // name in the lazy-tensor IR: "aten::add"
  std::string_view hlo;  // HLO opcode; empty: no single opcode, printed as a custom-call
};

const OpNames& names_of(Op op);

// IR name of a matrix product of two rank-2 operands; ir_name() returns it instead of "aten::matmul".
inline constexpr std::string_view kIrMm = "aten::mm";
std::string_view ir_name(const Program& program, ValueId id);

}  // namespace runner::backends::tpu
