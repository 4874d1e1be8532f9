// What PyTorch/XLA and XLA call our operations.
#pragma once

#include <string_view>

#include "backends/graph/op.h"

namespace runner::backends::tpu {

struct OpNames {
  Op op;
  std::string_view ir;   // of a traced node: "aten::add"
  std::string_view hlo;  // the opcode; empty: XLA has no single one, it stands as a custom-call
};

const OpNames& names_of(Op op);

}  // namespace runner::backends::tpu
