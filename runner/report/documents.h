// The JSON documents of the command line (docs/cli.md lists their keys).
//
// Keys may be added, none is ever renamed.  What is not known is null, and so is NaN, which JSON cannot say.  Times are
// UTC in ISO 8601.  Each document ends with a newline.  Thread-safe.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/train/run.h"
#include "schema/json.h"
#include "store/device_account.h"
#include "store/run_selection.h"

namespace runner::report {

// exec, resume, fork.
std::string run_document(const train::RunResult& result);

// Where a command failed: {"exit_code", "error": {"message", "file", "line"}}, and "errors" as `check` prints them
// where the error is a RecipeError.
std::string failure_document(const Error& error);
// The same with the other keys of a run_document: a run that never came to be.
std::string failed_run_document(const Error& error);
// The same with the "ok" of `check`.
std::string failed_check_document(const Error& error);

// {"message", "file": null, "line": null}: the "error" of a document that says what went wrong beside what it has.
json::Value error_value(const std::string& message);

// Adds that "error", of the first, and "left_out", the names of the parts; nothing where there is no damage.
void add_damage(json::Object& document, std::span<const store::Damage> damage);

// "columns" of each run holds what was asked for, name → value; it is there only where something was.
std::string runs_document(const store::RunSelection& selection);
std::string states_document(std::span<const store::StateInfo> states);
std::string metrics_document(std::span<const store::MetricSummary> metrics);
std::string points_document(const store::RunRow& run, std::string_view metric, std::span<const store::Point> points);
// A part that is damaged is empty or null; "error" and "left_out", an array of their names, are there only then.
// `counted`: its "tpu" (xla/report_json.h) or its "gpu" (train/record/gpu_use.h), and whose "attempt" that is; without
// any: null.
std::string show_document(const store::RunDetails& details, const store::DeviceMetrics& counted = {});
// {KEY: value}.
std::string params_document(const store::RunDetails& details);
// Every event as a document on a line of its own: {"time", "attempt", "level", "kind", "data"}.
std::string events_lines(const store::RunDetails& details);
// {"run", "name", "metrics": {NAME: [[step, value], …]}}: every point of every metric.
using MetricPoints = std::vector<std::pair<std::string, std::vector<store::Point>>>;
std::string all_points_document(const store::RunRow& run, const MetricPoints& metrics);
// Rows as objects; a column whose name came before gets a number: "x", "x_2".
std::string sql_document(const store::SqlResult& result);

}  // namespace runner::report
