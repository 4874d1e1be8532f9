// A traced graph lowered for the device: specialised, optimised and grouped into fusions.
//
// Absent states are created in the graph as zeros. Passes and fusions are those of the engine.
#pragma once

#include <vector>

#include "backends/exec/fusion.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/numerics.h"
#include "backends/tpu/roofline.h"

namespace runner::backends::tpu {

// The emulated hardware.
struct Hardware {
  Machine machine;
  DeviceTypes types = {};                // depends on mixed_precision
  Rounding rounding = Rounding::kPerOp;  // to `types`
  int64_t prefetched_batches = 0;        // waiting on the device
};

// Prediction for a graph, whether or not it fits into memory.
struct GraphForecast {
  GraphPrediction prediction;
  std::string exhausted;             // error text if memory is exhausted; empty: it fits
  std::vector<std::string> padding;  // padding warnings
};

// Returns the prediction for a step of this time, without its memory.
GraphPrediction prediction_of(const StepTime& time, const Machine& machine);

class LoweredGraph {
 public:
  LoweredGraph(const GraphIdentity& graph, const StateTensors& state_tensors);
  LoweredGraph(const LoweredGraph&) = delete;  // results refer to it
  LoweredGraph& operator=(const LoweredGraph&) = delete;

  // `donate`: true at a step marker, false for a read.
  GraphPrediction predict(const Hardware& hardware, bool donate) const;
  // Returns padding warnings. Throws OutOfMemory, an Error(kRun), with XLA's text if the graph does not fit into
  // memory.
  std::vector<std::string> check_memory(const Hardware& hardware) const;
  GraphForecast forecast(const Hardware& hardware) const;

 private:
  DeviceProgram on(const Hardware& hardware) const;

  const Program program_;
  const std::vector<Group> groups_;
  std::vector<std::vector<TensorType>> inputs_;
};

}  // namespace runner::backends::tpu
