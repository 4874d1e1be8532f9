// Output of `runner plan`. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "runner/report/table.h"
#include "runner/train/loop/memory_estimate.h"
#include "runner/train/loop/session.h"
#include "schema/base/json.h"

namespace runner::report {

// Adds the arithmetic of the data plan: samples, batches, optimizer steps, padding.
void add_plan(KeyValueTable& table, const data::DataPlan& plan);

// The predicted memory of a run.
struct PlanMemory {
  std::optional<train::MemoryEstimate> estimate = {};
  std::string unknown = {};  // why there is no estimate
};

// Data, batch arithmetic, model, memory, length of the run, and learning rate, which is also plotted. `width`: columns.
std::string plan_text(const train::Session& session, const PlanMemory& memory, int width, bool color);

// `plan` (data::plan_json) with model size, memory, length of the run, learning rates, and the members of `more`.
std::string plan_document(const train::Session& session, const PlanMemory& memory, std::string plan,
                          const json::Object& more);

}  // namespace runner::report
