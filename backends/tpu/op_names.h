// What PyTorch/XLA and XLA call our operations.
#pragma once

#include <string_view>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

struct OpNames {
  Op op;
  std::string_view ir;   // of a traced node: "aten::add"
  std::string_view hlo;  // the opcode; empty: XLA has no single one, it stands as a custom-call
};

const OpNames& names_of(Op op);

// What the IR calls a node: a product of two matrices has a name of its own.
inline constexpr std::string_view kIrMm = "aten::mm";
std::string_view ir_name(const Program& program, ValueId id);

}  // namespace runner::backends::tpu
