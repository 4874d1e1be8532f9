// Metrics reports of PyTorch/XLA from arbitrary text.
#include "runner/report/xla/metrics_report.h"

#include <algorithm>
#include <string>

#include "runner/report/xla/analysis_text.h"
#include "runner/report/xla/report_reader.h"
#include "schema/base/json.h"
#include "schema/base/utf8.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

using namespace report::xla;

// In nanoseconds. A double of this size still represents quarters.
constexpr double kLongestReport = 0x1p51;

// Missing parts of a damaged report cannot be printed.
bool is_whole_and_short(const ReportMetric& metric) {
  if (!metric.accumulator) return false;
  const auto fits = [&](double value) { return metric.kind != MetricKind::kTime || !(value >= kLongestReport); };
  return fits(*metric.accumulator) && fits(metric.mean.value_or(0)) && fits(metric.stddev.value_or(0)) &&
         fits(metric.value_rate.value_or(0)) && std::ranges::all_of(metric.percentiles, fits, &Percentile::value);
}

// A report that was read and printed must read as itself.
void check_text(const MetricsReport& report, DurationStyle style) {
  if (!std::ranges::all_of(report.metrics, is_whole_and_short)) return;
  const std::string text = report_text(report, style);
  const auto again = read_report(text, style);
  require(again.has_value() == !text.empty(), "what is printed is no report: " + text);
  if (!again) return;
  require(report_text(again->report, style) == text, "it does not print as it was read: " + text);
  require(again->problems.empty(), "what is printed has problems: " + text);
}

}  // namespace

bool metrics_report(Bytes input) {
  const std::string text(input.begin(), input.end());
  const auto reading = read_report(text);
  if (!reading) return false;
  require(reading->reports >= 1 && reading->line >= 1 && reading->rank >= -1, "there is no such place");
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  for (const ReportProblem& problem : reading->problems) {
    require(problem.line >= 1 && problem.line <= lines, "there is no such line: " + problem.text);
    require(problem.text.find('\n') == std::string::npos, "not one line: " + problem.text);
    require(is_utf8(problem.text), "not UTF-8: " + problem.text);
  }
  require(is_utf8(analysis_text(*reading, 0, false)), "the analysis is not UTF-8");
  require(!json::parse(analysis_document(*reading, "x")).is_null(), "the document is no JSON");
  check_text(reading->report, reading->durations.style);
  check_text(read_report(text, DurationStyle::kExact)->report, DurationStyle::kUpstream);
  return true;
}

}  // namespace runner::fuzz
