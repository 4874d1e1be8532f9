// Lines of a log as far as they belong to a metrics report: "2026-03-01 12:00:00 [rank0]:   Rate: 4.33 / second".
//
// Whatever stands before a keyword is the log's.  Carriage returns and the two characters "\n", as texts in quotes have
// them, end lines too; colours are taken out.  Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace runner::report::xla {

enum class LineKey : uint8_t {
  kMetric,
  kCounter,  // of the oldest releases the sum of a metric as well
  kTotalSamples,
  kAccumulator,
  kMean,
  kStdDev,
  kValueRate,
  kRate,
  kPercentiles,
  kValue,
  kStep,   // "[MetricsData; step=N]", before a report in a metrics file
  kOther,  // no line of a report
};

struct LogLine {
  int number = 0;  // from 1
  LineKey key = LineKey::kOther;
  std::string value;        // behind the keyword, without spaces around it
  int rank = -1;            // "[rank0]" before the keyword; -1: none is named
  bool is_unended = false;  // the text ends here, without a line end
};

// Calls `visit` with each line that is not empty.
void for_each_line(std::string_view text, const std::function<void(const LogLine&)>& visit);

// As it stands in a report: "TotalSamples".
std::string_view name_of(LineKey key);

}  // namespace runner::report::xla
