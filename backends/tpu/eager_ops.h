// What user's code has an eager TPU do in place of running a graph: its operations, each a graph of its own, one by
// one.
//
// They are those of the graph by tensors (tensor_graph.h), in the order in which they were traced.  A number that the
// dialect bakes into graphs is part of the operation that takes it, another is an input of it.  Slots of an optimizer
// that do not exist yet are made first, of zeros.  tests/golden/xla/eager.py measures what PyTorch/XLA does.
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
  GraphKey key;
  Origin origin = kNoOrigin;
  BakedText number;                              // of the first that is part of it
  std::vector<bool> accounts;                    // Graph::accounts
  int64_t hbm_bytes = 0;                         // of the device while it runs, everything included
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // of the tensors then
  std::vector<size_t> hosts;                     // which of the host's operations stand for it
  size_t shared_by = 1;                          // and for so many in all
};

struct EagerStep {
  Program tensors;  // that it is cut from; without slots that are made first
  std::vector<CutOp> cuts;
  EagerMemory memory;
  std::vector<EagerOp> ops;
  std::vector<int64_t> uploads;  // bytes of each tensor of the batch, as the device has it
};

// By kScalar input of a graph its value where it is part of the graph.
struct BakedNumber {
  double value;
  bool is_attribute;  // and is so whatever it is
  bool operator==(const BakedNumber&) const = default;
};
using BakedNumbers = std::vector<std::optional<BakedNumber>>;

EagerStep eager_step(const GraphIdentity& graph, const BakedNumbers& numbers, const StateTensors& state_tensors,
                     const Hardware& hardware);

// Finds for each operation those of the host that stand for it: of one place and kind, one for one where there are as
// many, else shared evenly.  What only the host has, as casts and joins, goes with what comes behind it.
void match(EagerStep& step, std::span<const OpTimes> host);
// A sum over those; `figure`: of each.
int64_t ns_of(const EagerOp& op, std::span<const OpTimes> host, int64_t OpTimes::*figure);
// Whether the newest submission came to what stands for it, and was done with it.
bool has_run(const EagerOp& op, std::span<const OpTimes> host);

// Where an operation does not fit, as of a device that allocates when it runs: the first that does not.
std::optional<size_t> first_beyond_memory(const EagerStep& step);

}  // namespace runner::backends::tpu
