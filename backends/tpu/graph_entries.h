// Serialised entries of a persistent cache: a compilation result, preceded by everything it was made from.
//
// There are two kinds. An executable entry contains the host's plan of a step (PlanImage in plan/plan.h): the Program
// after the passes and the memory plan. A graph entry contains the hardware model's prediction of one graph. An entry
// begins with its inputs, which are compared in full. The rest is parsed strictly; the lifetimes of a plan are computed
// again and checked against its offsets. Thread-safe.
#pragma once

#include "backends/exec/plan.h"
#include "backends/ir/byte_stream.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/graph_store.h"
#include "backends/tpu/lowered_graph.h"

namespace runner::backends::tpu {

// Inputs of the host's executable of `program`. `graph`: the graph that the user's code would compile.
std::vector<std::byte> made_from(const Program& program, const Program& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);
// Inputs of a graph's prediction.
std::vector<std::byte> made_from(const GraphIdentity& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);

struct ExecutableEntry {
  PlanImage image;
  std::vector<std::string> warnings;  // padding warnings of the graph
};

// The read functions throw Error(kData) if the entry is damaged or was made from something else.
std::vector<std::byte> entry_of(EntryBytes made_from, const ExecutableEntry& executable);
ExecutableEntry read_executable(EntryBytes entry, EntryBytes made_from, const Program& program);
std::vector<std::byte> entry_of(EntryBytes made_from, const GraphPrediction& prediction);
GraphPrediction read_prediction(EntryBytes entry, EntryBytes made_from);

}  // namespace runner::backends::tpu
