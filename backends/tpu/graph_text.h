// Graphs as texts, as PyTorch/XLA dumps them: shapes are the device's, so with XLA_USE_BF16 a float is bf16.  Of
// Programs as shown_graph() makes them, whose types are logical.
#pragma once

#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// What values are in memory.
struct ShownTypes {
  DeviceTypes types = {};
  std::vector<bool> accounts = {};  // by node: it keeps its logical type; empty: none does

  bool is_account(ValueId id) const { return !accounts.empty() && accounts[static_cast<size_t>(id)]; }
  // Of `id` as `reader` takes it.
  TensorType of(const Program& program, ValueId id, ValueId reader) const {
    return is_account(reader) ? program.type(id) : types.of(program.type(id));
  }
  TensorType of(const Program& program, ValueId id) const { return of(program, id, id); }
};

// What was traced: "IR {", a line for each node, "}".
std::string ir_text(const Program& tensor_graph, const ShownTypes& types = {});
// What it is lowered to: an HloModule, with a parameter for each input and an alias for each tensor updated in place,
// without casts between types that the device has one for, and with one where an account takes a tensor or gives one.
std::string hlo_text(const Program& tensor_graph, const ShownTypes& types = {});

}  // namespace runner::backends::tpu
