// Parses the lines of a log that belong to a metrics report: "2026-03-01 12:00:00 [rank0]: Rate: 4.33 / second".
//
// Text before a keyword belongs to the log. Carriage returns and the two characters "\n", as in quoted texts, also end
// lines. Colour codes are removed. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace runner::report::xla {

enum class LineKey : uint8_t {
  kMetric,
  kCounter,  // in the oldest releases also the sum of a metric
  kTotalSamples,
  kAccumulator,
  kMean,
  kStdDev,
  kValueRate,
  kRate,
  kPercentiles,
  kValue,
  kStep,   // "[MetricsData; step=N]", before a report in a metrics file
  kOther,  // not a line of a report
};

struct LogLine {
  int number = 0;  // from 1
  LineKey key = LineKey::kOther;
  std::string value;        // text after the keyword, trimmed
  int rank = -1;            // from "[rank0]" before the keyword; -1 if there is none
  bool is_unended = false;  // the text ends here without a line break
};

// Calls `visit` for each line that is not empty.
void for_each_line(std::string_view text, const std::function<void(const LogLine&)>& visit);

// Returns the keyword as printed in a report: "TotalSamples".
std::string_view name_of(LineKey key);

}  // namespace runner::report::xla
