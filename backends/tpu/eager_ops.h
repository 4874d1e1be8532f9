// Operations that an eager TPU runs for a graph, one by one, each as a graph of its own.
//
// They are the nodes of the tensor graph (tensor_graph.h) in trace order. A scalar that the dialect bakes into graphs
// is part of the operation that reads it; any other scalar is an input of it. Optimizer slots that do not exist yet are
// first created with zeros. tests/golden/xla/eager.py measures what PyTorch/XLA does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/tpu/eager_host.h"
#include "backends/tpu/eager_memory.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/op_cause.h"

namespace runner::backends::tpu {

struct EagerOp {
  GraphIdentity graph;
  GraphKey key = {};
  Origin origin = kNoOrigin;
  BakedText number = {};                         // describes the first baked scalar
  int64_t hbm_bytes = 0;                         // HBM in use while it runs, everything included
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // of the tensors in it
  std::vector<size_t> hosts = {};                // indices of the host operations that implement it
  size_t shared_by = 1;                          // number of operations that share these host operations
};

struct EagerStep {
  Program tensors;  // the graph that is split, without slots created first
  std::vector<SplitOp> split_ops;
  EagerMemory memory;
  std::vector<EagerOp> ops;
  std::vector<int64_t> uploads;  // bytes of each batch tensor, in device types
};

// A scalar that is part of the graph. BakedNumbers has one entry per kScalar input, empty if the scalar is an input.
struct BakedNumber {
  double value;
  bool is_attribute;  // is part of the graph whatever its value
  bool operator==(const BakedNumber&) const = default;
};
using BakedNumbers = std::vector<std::optional<BakedNumber>>;

EagerStep eager_step(const GraphIdentity& graph, const BakedNumbers& numbers, const StateTensors& state_tensors,
                     const Hardware& hardware);

// Assigns host operations to the operations that they implement: those of equal origin and op, one to one if there are
// equally many, else shared evenly. Operations that only the host runs, such as casts and joins, count towards the next
// matching operation.
void match(EagerStep& step, std::span<const OpTimes> host);
// Returns the sum of `figure` over the host operations of `op`, divided among the operations that share them.
int64_t ns_of(const EagerOp& op, std::span<const OpTimes> host, int64_t OpTimes::*figure);
// Returns whether the newest submission has completed all host operations of `op`.
bool has_run(const EagerOp& op, std::span<const OpTimes> host);

// Returns the first operation that does not fit into memory when its result is allocated, or nullopt.
std::optional<size_t> first_beyond_memory(const EagerStep& step);

}  // namespace runner::backends::tpu
