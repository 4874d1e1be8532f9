// Runs, states and metrics as people read them.  Thread-safe.
#pragma once

#include <span>
#include <string>

#include "runner/report/table.h"
#include "store/device_account.h"
#include "store/run_selection.h"

namespace runner::report {

Color color_of(store::RunStatus status);

// A parameter's value: text as it is, numbers with every digit.
std::string param_text(const store::Param::Value& value);

// Which kernel computes what, from the JSON that the store keeps: "products_f32 oneDNN, …".
std::string kernels_text(const std::string& kernels_json);

// "52c6d14a6b1f, branch main, uncommitted changes, 2 untracked files", and what is not known.
std::string git_text(const store::GitState& git);

// "step 120/5000  12 s left": how far a run is whose newest point is of `step`.  What is not known is left out.
std::string steps_text(const store::RunRow& run, int64_t step);

Table runs_table(std::span<const store::RunRow> runs);
// Each run's id and the columns chosen.
Table selection_table(const store::RunSelection& selection);
Table states_table(std::span<const store::StateInfo> states);
Table metrics_table(std::span<const store::MetricSummary> metrics);

// Every fact about a run: its life, attempts, metrics, states, artifacts, parameters with their origins, sources,
// environment, events, notes.  `counted`: as of show_document().
std::string show_text(const store::RunDetails& details, const store::DeviceMetrics& counted, int width, bool color);

}  // namespace runner::report
