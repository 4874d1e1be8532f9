// Prints graphs as PyTorch/XLA dumps them. Shapes have the dtypes of the device: with XLA_USE_BF16 a float is bf16. The
// Programs are those of shown_graph(), whose types are logical.
#pragma once

#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Types of values as printed.
struct ShownTypes {
  DeviceTypes types = {};
  // By node: whether it keeps its logical type (engine bookkeeping, see owners.h). Empty if no node does.
  std::vector<bool> bookkeeping = {};

  bool is_bookkeeping(ValueId id) const { return !bookkeeping.empty() && bookkeeping[static_cast<size_t>(id)]; }
  // Type of `id` as the node `reader` reads it.
  TensorType of(const Program& program, ValueId id, ValueId reader) const {
    return is_bookkeeping(reader) ? program.type(id) : types.of(program.type(id));
  }
  TensorType of(const Program& program, ValueId id) const { return of(program, id, id); }
};

// Returns the traced graph: "IR {", one line per node, "}".
std::string ir_text(const Program& tensor_graph, const ShownTypes& types = {});
// Returns the HloModule that the graph is lowered to: one parameter per input and an alias for each tensor that is
// updated in place. Casts between types that are equal on the device are omitted; a convert is added where bookkeeping
// reads a tensor or a tensor reads bookkeeping.
std::string hlo_text(const Program& tensor_graph, const ShownTypes& types = {});

}  // namespace runner::backends::tpu
