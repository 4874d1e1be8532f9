// Output of `runner plan`. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "runner/report/table.h"
#include "runner/train/loop/graph_forecast.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/step_estimate.h"
#include "schema/base/json.h"

namespace runner::report {

// Adds the arithmetic of the data plan: samples, batches, optimizer steps, padding.
void add_plan(KeyValueTable& table, const data::DataPlan& plan);

// What is predicted of a run.
struct PlanForecast {
  std::optional<train::StepEstimate> steps = {};
  std::string unknown = {};                       // why there is no estimate of the steps
  std::optional<train::RunForecast> graphs = {};  // of an emulated TPU
};

// Data, batch arithmetic, model, memory, predicted time, length of the run, learning rate, which is also plotted, and
// graphs of an emulated TPU. `width`: columns.
std::string plan_text(const train::Session& session, const PlanForecast& forecast, int width, bool color);

// `plan` (data::plan_json) with model size, memory, predicted time, length of the run, learning rates, the members of
// `more`, and graphs of an emulated TPU. docs/cli.md lists the keys.
std::string plan_document(const train::Session& session, const PlanForecast& forecast, std::string plan,
                          const json::Object& more);

}  // namespace runner::report
