// What `runner report` prints: a metrics report that was read, with true durations, and what it says.  Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/report/xla/analysis.h"
#include "runner/report/xla/report_reader.h"

namespace runner::report::xla {

// A table of the metrics, the counters, steps and pace, identities, findings; within `width` columns.  0: no limit.
std::string analysis_text(const ReportReading& reading, int width, bool color);
// The report as report_json() has it, with "file", "line", "rank", "step", "reports", "durations", "analysis",
// "warnings".
std::string analysis_document(const ReportReading& reading, const std::string& file);

// What a reader should know of how it was read: durations that may be others, and what could not be read, with its
// line.
std::vector<std::string> reading_warnings(const ReportReading& reading, const std::string& file);

}  // namespace runner::report::xla
