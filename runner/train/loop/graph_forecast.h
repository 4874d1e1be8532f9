// Predicts memory and time of a run's graphs on an emulated TPU without compiling or allocating anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tpu/tpu_device_model.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/train/loop/hooks.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

struct NamedForecast {
  std::string name;  // "training batch of 64"
  backends::tpu::GraphForecast graph;
  int64_t per_step = 0;  // executions in the first optimizer step
};

struct RunForecast {
  std::vector<NamedForecast> graphs;  // of the largest batches, once the optimizer state exists
  std::string unknown;                // why training or evaluation graphs are missing: only running the hook shows them
};

// `hooks`: null, or a hook that has made no model yet. Errors of a hook's step are reported in `unknown`. Not
// thread-safe.
RunForecast forecast_graphs(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                            backends::ModelledDevice& device, Hooks* hooks);

}  // namespace runner::train
