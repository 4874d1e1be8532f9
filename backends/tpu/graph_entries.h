// Entries of a persistent cache: what was compiled, behind all that it was made from.
//
// There are two kinds.  An executable entry has the host's plan of a step (plan/plan.h, PlanImage): the Program as the
// passes have made it and the memory plan.  A graph entry has what the hardware model says of one graph of it.  An
// entry begins with what it was made from, which is compared in full; the rest is read by a strict reader, and a plan's
// lifetimes are computed anew and checked against its offsets.  Thread-safe.
#pragma once

#include "backends/ir/byte_stream.h"
#include "backends/plan/plan.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/graph_store.h"
#include "backends/tpu/lowered_graph.h"

namespace runner::backends::tpu {

// What the host's executable of `program` is made from, where the user's code would have compiled `graph`.
std::vector<std::byte> made_from(const Program& program, const Program& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);
// What a graph is made from.
std::vector<std::byte> made_from(const GraphIdentity& graph, const Hardware& hardware,
                                 const StateTensors& state_tensors);

struct ExecutableEntry {
  PlanImage image;
  std::vector<std::string> warnings;  // of the graph: what padding wastes
};

// Each read function throws Error(kData) for an entry of something else, and for a damaged one.
std::vector<std::byte> entry_of(EntryBytes made_from, const ExecutableEntry& executable);
ExecutableEntry read_executable(EntryBytes entry, EntryBytes made_from, const Program& program);
std::vector<std::byte> entry_of(EntryBytes made_from, const GraphPrediction& prediction);
GraphPrediction read_prediction(EntryBytes entry, EntryBytes made_from);

}  // namespace runner::backends::tpu
