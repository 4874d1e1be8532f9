// A metrics report as JSON: what `show --json` says of a TPU, and how a run keeps its report.
//
// {"metrics": {NAME: {"kind": "value" | "bytes" | "time", "count", "sum", "value_rate", "rate", "percentiles":
// {"50": …}}}, "counters": {NAME: VALUE}}: times in nanoseconds, whole numbers as such, what is not known null, zero
// counts there; "mean" and "stddev" where a metric has them.  Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "runner/report/xla/metrics_report.h"
#include "schema/json.h"

namespace runner::report::xla {

json::Object metrics_json(const MetricsReport& report);
json::Object counters_json(const MetricsReport& report);

// Both, in one object; and the report that it was made of, where that was a report_of().  None: it is no such object.
json::Object report_json(const MetricsReport& report);
std::string metrics_document(const backends::tpu::MetricsSnapshot& snapshot);  // of its report_of(), as a text
std::optional<MetricsReport> report_of_json(const json::Value& document);

}  // namespace runner::report::xla
