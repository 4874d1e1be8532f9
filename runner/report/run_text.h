// Runs, states and metrics as text. Thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/report/device_time.h"
#include "runner/report/documents.h"
#include "runner/report/table.h"
#include "runner/train/run/gpu_use.h"
#include "schema/base/json.h"
#include "store/run_selection.h"

namespace runner::report {

Color color_of(store::RunStatus status);

// Value of a parameter: text unchanged, numbers with all digits.
std::string param_text(const store::Param::Value& value);

// Time that all attempts have run.
double seconds_of_attempts(const store::RunRow& run);

// Kernels in use, from the JSON in the store: "products_f32 oneDNN, …".
std::string kernels_text(const std::string& kernels_json);

// "52c6d14a6b1f, branch main, uncommitted changes, 2 untracked files", followed by notes on what is unknown.
std::string git_text(const store::GitState& git);

// "step 120/5000 12 s left": progress of a run whose newest point is at `step`. Unknown parts are omitted.
std::string steps_text(const store::RunRow& run, int64_t step);

inline constexpr const char* kMainMetrics = "best(eval/accuracy),best(eval/loss),last(train/loss)";
// `selection`: has the columns kMainMetrics. Shows the first of them that the run has.
Table runs_table(const store::RunSelection& selection);
// The id of each run and the selected columns.
Table selection_table(const store::RunSelection& selection);
Table states_table(std::span<const store::StateInfo> states);
Table metrics_table(std::span<const store::MetricSummary> metrics);

// All facts about a run: status, attempts, metrics, states, artifacts, parameters with their origins, sources,
// environment, events and notes. `more`: as for show_document().
std::string show_text(const store::RunDetails& details, const MoreOfRun& more, int width, bool color);

// Formats the document of train/run/gpu_use.h as tables, each after an empty line. Returns "" if there is none.
std::string gpu_text(const json::Value& gpu, int width, bool color);
// Returns the predicted time of an optimizer step, and of all steps that `use` counts; none if it counts none.
// `samples_per_step`: of an optimizer step.
std::optional<DeviceTime> gpu_time(const train::GpuUse& use, double samples_per_step);

// The files of data and weights that a run has read, each as its newest attempt read it. A resumed attempt reads no
// weights.
std::vector<store::RecordedFile> recorded_files(const store::RunDetails& run);
// "178 rows, 11 kB, sha256 6be6b1203f3d".
std::string data_file_text(const store::RecordedFile& file);

}  // namespace runner::report
