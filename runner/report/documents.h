// JSON documents of the command line (docs/cli.md lists their keys).
//
// Keys may be added but are never renamed. Unknown values and NaN, which JSON does not have, are null. Times are UTC in
// ISO 8601. Each document ends with a newline. Thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/train/run/run.h"
#include "schema/base/json.h"
#include "store/device_report.h"
#include "store/run_selection.h"

namespace runner::report {

// Result of exec, resume and fork.
std::string run_document(const train::RunResult& result);

// Document of a failed command: {"exit_code", "error": {"message", "file", "line"}}. If the error is a RecipeError,
// also "errors" in the format of `check`.
std::string failure_document(const Error& error);
// Like failure_document(), with the other keys of run_document(), for a run that was not created.
std::string failed_run_document(const Error& error);
// Result of `check` for a valid recipe.
std::string check_document(const std::vector<std::string>& warnings);
// Like failure_document(), with the key "ok" of `check`.
std::string failed_check_document(const Error& error);

// Returns {"message", "file": null, "line": null}, the "error" of a document that also has other contents.
json::Value error_value(const std::string& message);

// Adds "error", the first damage, and "left_out", the names of the damaged parts. Adds nothing if there is no damage.
void add_damage(json::Object& document, std::span<const store::Damage> damage);

// "columns" of a run contains the requested columns as name → value; omitted if no columns were requested.
std::string runs_document(const store::RunSelection& selection);
std::string states_document(std::span<const store::StateInfo> states);
std::string metrics_document(std::span<const store::MetricSummary> metrics);
std::string points_document(const store::RunRow& run, std::string_view metric, std::span<const store::Point> points);
// What the store has about a run in addition to its RunDetails.
struct MoreOfRun {
  // "tpu" (xla/report_json.h) or "gpu" (train/run/gpu_use.h), with the attempt that they belong to; null if there are
  // none.
  store::DeviceMetrics device = {};
  std::optional<data::Encoding> encoding = {};  // of the newest state; none if there is no state
};
// A damaged part is empty or null; "error" and "left_out", the list of their names, are present only then.
std::string show_document(const store::RunDetails& details, const MoreOfRun& more = {});
// {KEY: value}.
std::string params_document(const store::RunDetails& details);
// One document per line for each event: {"time", "attempt", "level", "kind", "data"}.
std::string events_lines(const store::RunDetails& details);
// {"run", "name", "metrics": {NAME: [[step, value], …]}}, with every point of every metric.
using MetricPoints = std::vector<std::pair<std::string, std::vector<store::Point>>>;
std::string all_points_document(const store::RunRow& run, const MetricPoints& metrics);
// Rows as objects. Repeated column names get a number: "x", "x_2".
std::string sql_document(const store::SqlResult& result);

}  // namespace runner::report
