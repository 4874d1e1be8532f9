#include "runner/report/xla/analysis_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runner/report/output.h"
#include "runner/report/table.h"
#include "runner/report/xla/analysis.h"
#include "runner/report/xla/report_json.h"
#include "schema/base/duration.h"
#include "schema/base/text.h"

namespace runner::report::xla {
namespace {

constexpr std::string_view kOpPrefix = "xla::";

// A duration to the nanosecond, "27s920ms153.731us", or short, "27.9 s".
std::string cell_text(double value, MetricKind kind, bool is_short) {
  if (is_short && kind == MetricKind::kTime) return duration_text(value / 1e9);
  return metric_value_text(value, kind, DurationStyle::kExact);
}

Table metrics_table(const MetricsReport& report, bool is_short) {
  Table table({{"metric"},
               {"samples", Align::kRight},
               {"total", Align::kRight},
               {"mean", Align::kRight},
               {"50%", Align::kRight},
               {"99%", Align::kRight},
               {"a second", Align::kRight}});
  for (const ReportMetric& metric : report.metrics) {
    if (metric.total_samples == 0) continue;
    const auto figure = [&](std::optional<double> value) {
      return value ? cell_text(*value, metric.kind, is_short) : "";
    };
    const auto percentile = [&](double percent) {
      const auto found = std::ranges::find(metric.percentiles, percent, &Percentile::percent);
      return found != metric.percentiles.end() ? figure(found->value) : "";
    };
    std::optional<double> mean = metric.accumulator;
    if (mean) *mean /= static_cast<double>(metric.total_samples);
    table.add({metric.name, fmt::format("{}", metric.total_samples), figure(metric.accumulator), figure(mean),
               percentile(50), percentile(99), metric.rate ? fmt::format("{:g}", *metric.rate) : ""});
  }
  return table;
}

// Uses short durations if exact ones would be cut.
std::string metrics_text(const MetricsReport& report, int width, bool color) {
  const Table whole = metrics_table(report, false);
  if (whole.empty()) return "";
  const bool fits = width == 0 || whole.width() <= width;
  return (fits ? whole : metrics_table(report, true)).render(width, color) + "\n";
}

// There may be a hundred counters of operations, so only their sum is shown.
std::string counters_table(const MetricsReport& report, int width, bool color) {
  Table table({{"counter"}, {"value", Align::kRight}});
  int64_t ops = 0, calls = 0;
  for (const ReportCounter& counter : report.counters) {
    if (counter.name.starts_with(kOpPrefix)) {
      ++ops;
      calls += counter.value;
    } else {
      table.add({counter.name, fmt::format("{}", counter.value)});
    }
  }
  if (ops > 0) table.add({fmt::format("xla::… ({})", count_text(ops, "operation")), fmt::format("{}", calls)});
  return table.empty() ? "" : table.render(width, color) + "\n";
}

std::string place_text(const ReportReading& reading) {
  std::string text = fmt::format("at line {}", reading.line);
  if (!reading.step.empty()) text += fmt::format(", step {}", reading.step);
  if (reading.rank >= 0) text += fmt::format(", rank {}", reading.rank);
  if (reading.reports > 1) text += fmt::format(", the last of {} reports", reading.reports);
  return text;
}

std::string durations_text(const DurationDecision& durations) {
  if (durations.differing == 0) return "identical in both styles";
  if (durations.style == DurationStyle::kExact) return "exact, as printed";
  return fmt::format("corrected: torch_xla prints a part one too high if the rest is half a unit or more ({} here)",
                     count_text(durations.differing, "duration"));
}

std::string steps_text(const Cadence& cadence) {
  if (cadence.steps == 0) return "unknown: the report has neither MarkStep nor executions";
  return fmt::format("{}{}", cadence.steps,
                     cadence.steps_are_marked ? "" : ", taken from the executions: there is no MarkStep");
}

std::string compiles_text(const Cadence& cadence) {
  if (!cadence.compiles) return "unknown: the report has neither CompileTime nor a counter of compilations";
  std::string text = fmt::format("{}", *cadence.compiles);
  if (cadence.compiles_per_step()) text += fmt::format(", {:.2g} per step", *cadence.compiles_per_step());
  if (cadence.compile_ns.value_or(0) > 0)
    text += fmt::format(", {} in total", duration_text(*cadence.compile_ns / 1e9));
  return text;
}

std::string facts_text(const ReportReading& reading, const Analysis& analysis, bool color) {
  const Cadence& cadence = analysis.cadence;
  KeyValueTable facts;
  facts.add("report", place_text(reading));
  facts.add("durations", durations_text(reading.durations));
  facts.add("steps", steps_text(cadence));
  facts.add("compiles", compiles_text(cadence));
  if (cadence.period_ns) {
    facts.add("execution",
              fmt::format("every {}, {} of it on the device ({:.1f} %)", duration_text(*cadence.period_ns / 1e9),
                          duration_text(*cadence.running_ns / 1e9), 100 * *cadence.running_ns / *cadence.period_ns));
  }
  if (cadence.waiting_ns) {
    facts.add("wait",
              fmt::format("{} per execution, host waiting for the device", duration_text(*cadence.waiting_ns / 1e9)));
  }
  facts.add("bottleneck", fmt::format("{}: {}", name_of(analysis.verdict.pace), analysis.verdict.text));
  return facts.render(color);
}

std::string identities_text(const Analysis& analysis, bool color) {
  Table table({{""}, {""}, {""}});
  for (const Identity& identity : analysis.identities) {
    table.add({identity.text,
               identity.figures,
               {identity.holds ? "ok" : "does not hold: counters were cleared, or the report is incomplete",
                identity.holds ? Color::kGreen : Color::kYellow}});
  }
  return table.empty() ? "" : "\n" + table.render(0, color);
}

std::string findings_text(const Analysis& analysis, bool color) {
  std::string text =
      analysis.findings.empty() ? "\nno findings: PyTorch/XLA's own analysis would not warn either\n" : "";
  for (const Finding& finding : analysis.findings) {
    text += fmt::format("\n{} {}\n  {}\n", painted(fmt::format("{}:", finding.id), Color::kYellow, color),
                        visible(finding.text), visible(finding.advice));
  }
  return text;
}

}  // namespace

std::string analysis_text(const ReportReading& reading, int width, bool color) {
  const Analysis analysis = analysis_of(reading.report);
  return metrics_text(reading.report, width, color) + counters_table(reading.report, width, color) +
         facts_text(reading, analysis, color) + identities_text(analysis, color) + findings_text(analysis, color);
}

std::vector<std::string> reading_warnings(const ReportReading& reading, const std::string& file) {
  const DurationDecision& durations = reading.durations;
  std::vector<std::string> warnings;
  if (!durations.certain()) {
    warnings.push_back(
        fmt::format("cannot detect how the report's durations were printed; assuming upstream; {} would differ if they "
                    "are exact; set --durations",
                    count_text(durations.differing, "duration")));
  }
  if (durations.specified && durations.contradiction > durations.evidence) {
    warnings.push_back(fmt::format("--durations {} contradicts the report: {} can only be in the other style",
                                   durations.style == DurationStyle::kExact ? "exact" : "upstream",
                                   count_text(durations.contradiction, "figure")));
  }
  if (durations.ties > 0) {
    warnings.push_back(fmt::format("{} may be one unit longer: torch_xla rounds exactly half a unit to an even number",
                                   count_text(durations.ties, "duration")));
  }
  for (const ReportProblem& problem : reading.problems) {
    warnings.push_back(fmt::format("{}:{}: {}", file, problem.line, problem.text));
  }
  return warnings;
}

std::string analysis_document(const ReportReading& reading, const std::string& file) {
  const DurationDecision& durations = reading.durations;
  json::Object document{
      {"file", file},
      {"line", reading.line},
      {"rank", reading.rank >= 0 ? json::Value(reading.rank) : json::Value()},
      {"step", json::or_null(reading.step)},
      {"reports", reading.reports},
      {"durations", json::Object{{"style", durations.style == DurationStyle::kExact ? "exact" : "upstream"},
                                 {"certain", durations.certain()},
                                 {"differing", durations.differing},
                                 {"ties", durations.ties}}}};
  for (auto& member : report_json(reading.report)) document.push_back(std::move(member));
  document.emplace_back("analysis", analysis_json(analysis_of(reading.report)));
  document.emplace_back("warnings", json::list_of(reading_warnings(reading, file)));
  return json::text(document);
}

}  // namespace runner::report::xla
