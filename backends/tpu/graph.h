// A graph as the emulated TPU has compiled it: what `runner graphs` shows a row of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/ir/program.h"
#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/traced_work.h"

namespace runner::backends::tpu {

using GraphKey = ProgramHash;

// What decides which graph an execution is.
struct GraphIdentity {
  std::shared_ptr<const Program> program;  // as the user's code has traced it
  std::vector<TracedScalar> scalars;       // numbers that it was handed
  ScalarSignature signature;               // of these
  std::vector<int32_t> absent;             // states, by index among them, that it reads and that do not exist yet
  int64_t batches = 1;                     // of training, that it holds: no part of the key
};

// A tensor of a state, as the user's code has it.
struct StateTensor {
  std::string name;
  TensorType type;
};
// By state: a flat buffer of parameters has one for each of them.
using StateTensors = std::vector<std::vector<StateTensor>>;

// How many tensors a graph takes, gives, and updates in place; nodes as traced.
struct GraphSize {
  int64_t nodes = 0, inputs = 0, outputs = 0, donated = 0;
};

// What the hardware model says of it.
struct GraphPrediction {
  int64_t hbm_bytes = 0;                         // at its peak, everything included
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // of the tensors then
  int64_t flops = 0, bytes = 0;
  double least_seconds = 0, most_seconds = 0;
  std::string formula;
};

// In what a graph differs from the nearest one before it.
enum class MissKind : uint8_t {
  kFirst,
  kBatchSize,  // an input of the batch has another shape, and ops are the same
  kState,      // states exist now, or do not exist yet
  kNumber,     // which numbers are part of it, or equal
  kAttribute,  // a number that is part of it whatever it is
  kStructure,  // operations, attributes, results
  kForgotten,  // it was compiled before
  kStored,     // no miss: a store had it
};

struct Graph {
  GraphKey key;
  GraphIdentity identity;                  // empty where the cache has forgotten it
  std::shared_ptr<const Program> tensors;  // the same by tensors (tensor_graph.h): what is shown of it
  DeviceTypes types;                       // of its floats on the device,
  std::vector<bool> accounts;              // but for these of its nodes; empty: of none
  GraphSize size;                          // of that
  TracedWork work;                         // of each execution
  GraphPrediction prediction;
  MissKind kind = MissKind::kFirst;
  std::string cause;       // why no cache had it
  SourceMark line;         // of the hook, where the cause has one
  int64_t first_step = 0;  // training batch at which it first ran, from 1; 0: before any
  int64_t compile_ns = 0;
  int64_t executions = 0;
};

// Not taken from a store.
inline bool was_compiled(const Graph& graph) {
  return graph.kind != MissKind::kStored;
}

}  // namespace runner::backends::tpu
