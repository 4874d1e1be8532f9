// Output of `runner report`: a metrics report with corrected durations, and its analysis. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/report/xla/report_reader.h"

namespace runner::report::xla {

// A table of metrics, the counters, steps and pace, identities, and findings. `width`: maximum width in columns, or 0
// for no limit.
std::string analysis_text(const ReportReading& reading, int width, bool color);
// The document of report_json() with the additional keys "file", "line", "rank", "step", "reports", "durations",
// "analysis" and "warnings".
std::string analysis_document(const ReportReading& reading, const std::string& file);

// Warnings about the reading: ambiguous durations, and parts that could not be read, with their lines.
std::vector<std::string> reading_warnings(const ReportReading& reading, const std::string& file);

}  // namespace runner::report::xla
