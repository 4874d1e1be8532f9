// A graph that the emulated TPU has compiled: one row of `runner graphs`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/ir/program.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Work of the user's code per graph execution: the operations that it traces and the batch that it uploads. PyTorch/XLA
// traces a step again each time, so every execution counts. Programs are tensor graphs (tensor_graph.h).

// Names of the op counters, by index: "xla::add", ….
std::vector<std::string> op_counter_names();

struct TracedWork {
  std::vector<std::pair<size_t, int64_t>> ops;  // index of the counter, number of calls
  std::vector<int64_t> uploads;                 // bytes of each batch tensor, in device types
};
TracedWork traced_work(const Program& tensor_graph, const DeviceTypes& types);

// Adds the counts of one execution to `metrics`.
void count(const TracedWork& work, MetricsRegistry& metrics);

using GraphKey = ProgramHash;

// Everything that determines which graph an execution is.
struct GraphIdentity {
  std::shared_ptr<const Program> program = {};  // as traced by the user's code
  std::vector<TracedScalar> scalars = {};       // host scalars passed while tracing
  ScalarSignature signature = {};               // of `scalars`
  std::vector<int32_t> absent = {};             // indices of the states that it reads and that do not exist yet
  int64_t batches = 1;                          // training batches it contains; not part of the key
  bool evaluates = false;                       // belongs to an evaluation; not part of the key
  // Of an operation that runs alone, by node: bookkeeping that keeps its type, where the device has another type for
  // the user's tensors. Empty: no node is.
  std::vector<bool> bookkeeping = {};

  // A graph without scalars, whose states all exist.
  static GraphIdentity of(Program program) { return {.program = std::make_shared<const Program>(std::move(program))}; }
};

// Nodes as traced; tensors that are inputs, outputs, and updated in place.
struct GraphSize {
  int64_t nodes = 0, inputs = 0, outputs = 0, donated = 0;
};

// Prediction of the hardware model.
struct GraphPrediction {
  int64_t hbm_bytes = 0;                         // peak use, everything included
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // of the tensors live at the peak
  int64_t flops = 0, bytes = 0;
  double least_seconds = 0, most_seconds = 0;
  std::string formula;
};

// Role of a graph, derived from its outputs. Graphs are only compared with graphs of the same role.
enum class GraphRole : uint8_t {
  kUpdate,   // leaves new parameters, gradients or moments: a training step or a part of one
  kForward,  // does not: an evaluation
  kRead,     // computes only a value that the host reads
};

// How a missed graph differs from the nearest earlier graph.
enum class MissKind : uint8_t {
  kFirst,
  kBatchSize,  // an input of the batch has another number of samples; the ops are the same
  kState,      // states exist now, or do not exist yet
  kNumber,     // other scalars are baked, or equal to each other
  kAttribute,  // a scalar attribute, baked whatever its value
  kStructure,  // operations, attributes, outputs
  kEvicted,    // compiled before, but evicted from the cache
  kStored,     // no miss: loaded from a store
};

struct MissCause {
  std::string text;
  SourceMark line;  // line of the hook, if a node is what differs
  MissKind kind = MissKind::kStructure;
};

struct Graph {
  explicit Graph(GraphRole its_role) : role(its_role) {}

  GraphKey key;
  GraphIdentity identity;                  // empty after eviction from the cache
  std::shared_ptr<const Program> tensors;  // tensor graph (tensor_graph.h), for printing; null if not kept
  DeviceTypes types;                       // types of its floats on the device
  std::vector<bool> bookkeeping;           // by node: bookkeeping that keeps its type; empty: no node is
  GraphSize size;                          // of the tensor graph
  TracedWork work;                         // per execution
  GraphPrediction prediction;
  MissCause cause;         // why it was not in a cache
  int64_t first_step = 0;  // training batch at which it first ran, from 1; 0: before the first
  int64_t compile_ns = 0;
  int64_t executions = 0;
  GraphRole role;
  bool evaluates = false;  // was first part of an evaluation
};

// Whether the recipe prevents short batches already, and whether its batches differ in tokens per sample.
struct ShortBatches {
  bool dropped_in_training = false, filled_in_evaluations = false;
  bool lengths_differ = false;
};

// Whether the graph was compiled rather than loaded from a store.
inline bool was_compiled(const Graph& graph) {
  return graph.cause.kind != MissKind::kStored;
}

}  // namespace runner::backends::tpu
