// Reads a metrics report as users have it: printed by any release of PyTorch/XLA up to 2.9, alone or within a log,
// possibly truncated or repeated.
//
// Skips lines that belong to no report. Omits unreadable parts of a report and lists them as problems. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/xla/metrics_report.h"
#include "runner/report/xla/raw_report.h"

namespace runner::report::xla {

struct ReportProblem {
  int line = 0;  // from 1
  std::string text;
};

struct ReportReading {
  MetricsReport report;
  int line = 0;      // line of the text at which the report begins
  int rank = -1;     // rank in the log lines; -1 if there is none
  int reports = 1;   // number of reports of all ranks in the text; this is the last one of the lowest rank
  std::string step;  // from "[MetricsData; step=N]" before the report; "" if there is none
  DurationDecision durations;
  std::vector<ReportProblem> problems;
};

// Returns nullopt if the text has no complete entry of a report. `style`: style of the durations; if nullopt, it is
// inferred from the figures.
std::optional<ReportReading> read_report(std::string_view text, std::optional<DurationStyle> style = {});

}  // namespace runner::report::xla
