// What the operations of a graph would take on an eager TPU, before any of them runs.
#pragma once

#include "backends/tpu/lowered_graph.h"

namespace runner::backends::tpu {

// Memory and time of the operations one by one; the error is that of the first that cannot have its result.  Of a graph
// whose states all exist.
GraphForecast eager_forecast(const GraphIdentity& graph, const StateTensors& state_tensors, const Hardware& hardware);

// Throws that error; else what it would take as one graph, traced.
GraphForecast check_eager_memory(const GraphIdentity& graph, const StateTensors& state_tensors,
                                 const Hardware& hardware);

}  // namespace runner::backends::tpu
