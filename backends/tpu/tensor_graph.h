// A traced graph at tensor level: one node per tensor of the user's code, none for the engine's flat arrays.
//
// Our Programs keep parameters, gradients and moments in flat arrays, so that an optimizer update is one loop. Under
// PyTorch/XLA each tensor is separate, and dumps and counts show it so. A state becomes one input per tensor that it
// contains, and element-wise results of it one node per tensor. Absent states become zeros, scalars that share a
// parameter become one input, and matrix products read their operands without transposition flags. Other uses of flat
// arrays read the concatenated tensors.
#pragma once

#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

// A tensor graph, and by node whether it is engine bookkeeping (owners.h), which has types of its own.
struct ShownGraph {
  Program program;
  std::vector<bool> bookkeeping;
};

// Returns a graph that computes the same as `graph.program`. It contains the nodes that outputs need, in post-order,
// and the inputs among them. An output that replaces a state is split by tensor; one whose former value is not read has
// no state.
ShownGraph shown_graph(const GraphIdentity& graph, const StateTensors& state_tensors);
Program tensor_graph(const GraphIdentity& graph, const StateTensors& state_tensors);
// The same in trace order with all inputs. An output that replaces a state always has it.
ShownGraph shown_graph_as_traced(const GraphIdentity& graph, const StateTensors& state_tensors);

// Counts nodes, inputs, outputs, and tensors updated in place.
GraphSize size_of(const Program& tensor_graph);

}  // namespace runner::backends::tpu
