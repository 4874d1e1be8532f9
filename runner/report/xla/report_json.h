// A metrics report as JSON, for `show --json` and for the store.
//
// {"metrics": {NAME: {"kind": "value" | "bytes" | "time", "count", "sum", "value_rate", "rate", "percentiles": {"50":
// …}}}, "counters": {NAME: VALUE}}. Times are in nanoseconds. Integers have no decimal point, unknown values are null,
// and zero counts are included. "mean" and "stddev" are present if a metric has them. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "runner/report/xla/metrics_report.h"
#include "schema/base/json.h"

namespace runner::report::xla {

json::Object metrics_json(const MetricsReport& report);
json::Object counters_json(const MetricsReport& report);

// Conversion of a whole report to JSON and back. report_of_json() restores any report made by report_of(), and returns
// nullopt if the JSON is not such a document.
json::Object report_json(const MetricsReport& report);
std::string metrics_document(const backends::tpu::MetricsSnapshot& snapshot);  // report_of(snapshot) as text
std::optional<MetricsReport> report_of_json(const json::Value& document);

}  // namespace runner::report::xla
