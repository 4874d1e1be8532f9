// Operations that an eager TPU runs for a graph, one by one, each as a graph of its own.
//
// They are the nodes of the tensor graph (tensor_graph.h) in trace order. A scalar that the dialect bakes into graphs
// is part of the operation that reads it; any other scalar is an input of it. Optimizer slots that do not exist yet are
// first created with zeros. tests/golden/xla/eager.py measures what PyTorch/XLA does.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backends/tpu/eager_host.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/miss_cause.h"
#include "backends/tpu/op_split.h"

namespace runner::backends::tpu {

// Memory of a TPU whose operations run one by one: live tensors plus the result of the running operation.
//
// A result occupies its own padded memory (tiling.h) from its operation until its last reader has run. The old contents
// of a state stay until the new ones exist and nothing reads the old ones. Arguments, prefetched batches and the code
// of all operations are resident throughout, as in hbm.h. No buffer is donated or reused.
struct EagerMoment {
  int64_t result = 0;                // padded bytes of the operation's result
  int64_t unpadded = 0, padded = 0;  // bytes of all tensors while it runs, its result included
  int64_t with_batch = 0;            // padded bytes that grow with the batch
  int64_t with_own = 0;              // padded bytes of hook tensors that grow with neither batch nor model
};

struct EagerMemory {
  std::vector<EagerMoment> moments;  // by operation
  int64_t reserved = 0, usable = 0;  // constants of the generation
  int64_t code = 0, prefetched = 0;

  int64_t used(size_t op) const { return moments[op].padded + code + prefetched; }
  int64_t peak(size_t op) const { return reserved + used(op); }
};

// `programs`: number of distinct operations; each has its own code.
EagerMemory eager_memory(const Program& tensors, const std::vector<SplitOp>& ops, int64_t programs,
                         const Hardware& hardware);

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

// Returns memory and time of the graph's operations run one by one. The error, if any, is that of the first operation
// whose result does not fit. All states of the graph must exist.
GraphForecast eager_forecast(const GraphIdentity& graph, const StateTensors& state_tensors, const Hardware& hardware);

// Throws that error as OutOfMemory if an operation does not fit. Returns the forecast of the graph if it were traced.
GraphForecast check_eager_memory(const GraphIdentity& graph, const StateTensors& state_tensors,
                                 const Hardware& hardware);

}  // namespace runner::backends::tpu
