// What the graphs of a run would take on an emulated TPU, before anything is compiled or given memory.
#pragma once

#include <string>
#include <vector>

#include "backends/tpu/tpu_device.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/train/step/hooks.h"
#include "schema/recipe.h"

namespace runner::train {

struct NamedForecast {
  std::string name;  // "training batch of 64"
  backends::tpu::GraphForecast graph;
};

struct RunForecast {
  std::vector<NamedForecast> graphs;  // of the largest batches, where the optimizer's state exists
  std::string unknown;                // why there are none of training, or of evaluation: a hook decides when it runs
};

// `hooks`: null, or some that have made no model yet.  What a hook's step fails with is in `unknown`.  Not thread-safe.
RunForecast forecast_graphs(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                            backends::tpu::TpuDevice& device, Hooks* hooks);

}  // namespace runner::train
