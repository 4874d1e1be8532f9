// A traced graph as the user's code has it: a node for each tensor, none for the arrays that the engine keeps.
//
// Our Programs keep parameters, gradients and moments in flat arrays, so that an update is one loop; under PyTorch/XLA
// each tensor stands by itself, and so it does in dumps and counts.  A state becomes an input for each tensor that it
// holds, what is computed of it element by element a node for each; states that do not exist yet are zeros, numbers
// that share an input are one, and products take their operands as they are.  What flat arrays are used for otherwise
// sees them joined.
#pragma once

#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

// A tensor graph, and by node whether it is an account of the engine's (owners.h), which has types of its own.
struct ShownGraph {
  Program program;
  std::vector<bool> accounts;
};

// Computes what `graph.program` does.  Its nodes are those that outputs need, in post-order; its inputs, those of them.
// An output that replaces a state is one for each of its tensors; one whose former value nothing reads has no state.
ShownGraph shown_graph(const GraphIdentity& graph, const StateTensors& state_tensors);
Program tensor_graph(const GraphIdentity& graph, const StateTensors& state_tensors);
// The same in the order in which it was traced, with all inputs; an output that replaces a state always has it.
ShownGraph shown_graph_as_traced(const GraphIdentity& graph, const StateTensors& state_tensors);

// How many tensors it takes, gives, and updates in place, and its nodes.
GraphSize size_of(const Program& tensor_graph);

}  // namespace runner::backends::tpu
