// Predicts memory and time of an eager TPU before it runs anything.
#pragma once

#include "backends/tpu/lowered_graph.h"

namespace runner::backends::tpu {

// Returns memory and time of the graph's operations run one by one. The error, if any, is that of the first operation
// whose result does not fit. All states of the graph must exist.
GraphForecast eager_forecast(const GraphIdentity& graph, const StateTensors& state_tensors, const Hardware& hardware);

// Throws that error as OutOfMemory if an operation does not fit. Returns the forecast of the graph if it were traced.
GraphForecast check_eager_memory(const GraphIdentity& graph, const StateTensors& state_tensors,
                                 const Hardware& hardware);

}  // namespace runner::backends::tpu
