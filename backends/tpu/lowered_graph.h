// A traced graph as the device would run it: specialised, optimised, cut into fusions.
//
// States that do not exist yet are made in the graph, of zeros; passes and fusions are those of the engine.
#pragma once

#include <vector>

#include "backends/plan/fusion.h"
#include "backends/tpu/device_types.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/roofline.h"

namespace runner::backends::tpu {

// The emulated machine.
struct Hardware {
  Machine machine;
  DeviceTypes types = {};                // by mixed_precision
  Rounding rounding = Rounding::kPerOp;  // to these types
  int64_t prefetched_batches = 0;        // that wait on the device
};

// What a graph would be on the device, whether it fits or not.
struct GraphForecast {
  GraphPrediction prediction;
  std::string exhausted;             // the error where the memory is too small; empty: it fits
  std::vector<std::string> padding;  // what padding wastes
};

class LoweredGraph {
 public:
  LoweredGraph(const GraphIdentity& graph, const StateTensors& state_tensors);
  LoweredGraph(const LoweredGraph&) = delete;  // what it gives refers to it
  LoweredGraph& operator=(const LoweredGraph&) = delete;

  // `donate`: at a step marker, not where a value is read.
  GraphPrediction predict(const Hardware& hardware, bool donate) const;
  // Throws Error(kRun) with XLA's words where the memory of the device is too small; says what padding wastes.
  std::vector<std::string> check_memory(const Hardware& hardware) const;
  GraphForecast forecast(const Hardware& hardware) const;

 private:
  DeviceProgram on(const Hardware& hardware) const;

  const Program program_;
  const std::vector<Group> groups_;
  std::vector<std::vector<TensorType>> inputs_;
};

}  // namespace runner::backends::tpu
