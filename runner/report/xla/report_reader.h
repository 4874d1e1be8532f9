// Reads a metrics report as a user meets it: printed by any release of PyTorch/XLA up to 2.9, in a file or within a
// log, cut off, several times over.
//
// Lines that belong to no report are passed over.  What belongs to one and cannot be read is a problem, and left out.
// Thread-safe.
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
  int line = 0;      // of the text, where the report begins
  int rank = -1;     // that the lines of a log name; -1: none
  int reports = 1;   // that the text has, of all ranks; this is the last one of the lowest rank
  std::string step;  // "[MetricsData; step=N]" before it; empty: there was none
  DurationDecision durations;
  std::vector<ReportProblem> problems;
};

// None: the text has no entry of a report that is whole.  `style`: as durations were printed; none: as figures tell.
std::optional<ReportReading> read_report(std::string_view text, std::optional<DurationStyle> style = {});

}  // namespace runner::report::xla
