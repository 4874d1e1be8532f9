#include "runner/report/xla/report_reader.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "runner/report/xla/log_lines.h"
#include "schema/base/text.h"

namespace runner::report::xla {
namespace {

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// Removes the unit of "4.33049 / second"; returns "" if there is none.
std::string_view without_per_second(std::string_view text) {
  constexpr std::string_view kUnit = " / second";
  return text.ends_with(kUnit) ? text.substr(0, text.size() - kUnit.size()) : std::string_view();
}

// Reads a figure. A duration must be valid in at least one style.
std::optional<MetricValue> read_known_figure(std::string_view text) {
  const auto figure = read_metric_value(text);
  if (!figure || figure->kind != MetricKind::kTime) return figure;
  return figure->duration.exact || figure->duration.upstream ? figure : std::nullopt;
}

// Name of a metric or counter: one word of printable ASCII.
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

// Parses the lines of one rank, which may contain several reports.
class LineParser {
 public:
  explicit LineParser(int rank) : rank_(rank) {}

  void add(const LogLine& line);
  void end();

  int reports() const { return reports_; }
  // Returns the last report.
  ReportReading take(std::optional<DurationStyle> style) &&;

 private:
  // A report and its context.
  struct Current {
    RawReport raw;
    int line = 0;
    int block = 0;
    bool last_was_counter = false;
    bool beginning_is_cut = false;
    std::string step;
    std::vector<ReportProblem> problems;

    bool empty() const { return raw.metrics.empty() && raw.counters.empty(); }
  };
  // The metric that is being read.
  struct Open {
    RawMetric metric;
    std::optional<MetricKind> kind;  // kind of the first readable figure
    int line = 0;
    bool has_samples = false, has_sum = false, is_whole = false;  // has_sum: the line of the sum was found, readable or
                                                                  // not
    std::vector<ReportProblem> problems;
  };

  void begin_metric(const LogLine& line);
  void read_of_metric(const LogLine& line);
  void read_figure_of(const LogLine& line, std::string_view text, std::optional<MetricValue>& figure);
  bool is_of_kind(const MetricValue& figure);
  void read_percentiles(const LogLine& line);
  void end_metric();
  void end_counter(const LogLine& line);
  void begin_entry(bool is_counter, int line);
  void begin_report();
  bool repeats(std::string_view metric) const;
  ReportCounter* find_counter(std::string_view name);
  void unreadable(const LogLine& line, std::string_view what);

  const int rank_;
  int reports_ = 0;
  Current current_, last_;  // last_: the last complete report
  std::optional<Open> metric_;
  std::string counter_;  // counter whose value is expected; "" if none
  int counter_line_ = 0;
  std::string step_;  // step of the next report
  bool gap_ = false;  // other lines occurred since the last entry
};

void LineParser::unreadable(const LogLine& line, std::string_view what) {
  auto& problems = metric_ ? metric_->problems : current_.problems;
  problems.push_back(
      {line.number, fmt::format("{} of {} is {}: {}", name_of(line.key), metric_ ? metric_->metric.name : counter_,
                                in_quotes(line.value), what)});
}

void LineParser::add(const LogLine& line) {
  switch (line.key) {
    case LineKey::kMetric:
      end_metric();
      begin_metric(line);
      return;
    case LineKey::kCounter:
      if (metric_ && metric_->has_samples && !metric_->has_sum && read_known_figure(line.value))
        return read_of_metric(line);
      end_metric();
      counter_ = is_name(line.value) ? line.value : "";
      counter_line_ = line.number;
      return;
    case LineKey::kValue:
      if (!counter_.empty()) end_counter(line);
      return;
    case LineKey::kStep:
      end_metric();
      begin_report();
      step_ = line.value;
      return;
    case LineKey::kOther: gap_ = true; return;
    default: break;
  }
  if (metric_) return read_of_metric(line);
  constexpr LineKey kMetricLines[] = {LineKey::kTotalSamples, LineKey::kAccumulator, LineKey::kPercentiles};
  if (!current_.empty() || std::ranges::find(kMetricLines, line.key) == std::end(kMetricLines)) return;
  current_.beginning_is_cut = true;
  gap_ = false;
}

// ---- a metric -------------------------------------------------------------------------------------------------------

void LineParser::begin_metric(const LogLine& line) {
  counter_.clear();
  if (!is_name(line.value)) return;
  metric_ = Open();
  metric_->metric.name = line.value;
  metric_->line = line.number;
}

void LineParser::read_of_metric(const LogLine& line) {
  RawMetric& metric = metric_->metric;
  if (line.key == LineKey::kTotalSamples) {
    const auto samples = read_number<int64_t>(line.value);
    metric_->has_samples = samples && *samples >= 0;
    if (!metric_->has_samples) return unreadable(line, "expected a number of samples; the metric is ignored");
    metric.total_samples = *samples;
    return;
  }
  if (!metric_->has_samples) return;
  switch (line.key) {
    case LineKey::kAccumulator:
    case LineKey::kCounter: metric_->has_sum = true; return read_figure_of(line, line.value, metric.accumulator);
    case LineKey::kMean: return read_figure_of(line, line.value, metric.mean);
    case LineKey::kStdDev: return read_figure_of(line, line.value, metric.stddev);
    case LineKey::kValueRate: return read_figure_of(line, without_per_second(line.value), metric.value_rate);
    case LineKey::kRate:
      metric.rate = read_number<double>(without_per_second(line.value));
      if (!metric.rate) unreadable(line, "expected a rate");
      return;
    default: return read_percentiles(line);
  }
}

void LineParser::read_figure_of(const LogLine& line, std::string_view text, std::optional<MetricValue>& figure) {
  figure = read_known_figure(text);
  if (figure && is_of_kind(*figure)) return;
  figure.reset();
  unreadable(line, metric_->kind ? "expected a value of the metric's kind" : "expected a value");
}

bool LineParser::is_of_kind(const MetricValue& figure) {
  if (!metric_->kind) metric_->kind = figure.kind;
  return figure.kind == *metric_->kind;
}

void LineParser::read_percentiles(const LogLine& line) {
  std::string_view text = line.value;
  metric_->is_whole = !text.ends_with(';');
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view item = text.substr(0, end);
    const size_t sign = std::min(item.find("%="), item.size());
    const auto percent = read_number<double>(item.substr(0, sign));
    const auto figure = sign < item.size() ? read_known_figure(item.substr(sign + 2)) : std::nullopt;
    if (!percent || !figure || !is_of_kind(*figure)) {
      metric_->problems.push_back({line.number, fmt::format("cannot parse the percentiles of {}, starting at {}",
                                                            metric_->metric.name, in_quotes(item))});
      break;
    }
    metric_->metric.percentiles.emplace_back(*percent, *figure);
    text.remove_prefix(std::min(text.size(), end + (text.substr(end).starts_with("; ") ? 2 : 1)));
  }
  end_metric();
}

void LineParser::end_metric() {
  if (!metric_) return;
  Open open = *std::exchange(metric_, std::nullopt);
  const std::string& name = open.metric.name;
  if (open.has_samples) {
    if (repeats(name)) begin_report();
    begin_entry(false, open.line);
    if (!open.has_sum && open.problems.empty())
      open.problems.push_back({open.line, name + " ends before its Accumulator"});
    if (open.has_sum && open.kind && !open.is_whole)
      open.problems.push_back({open.line, name + " ends before the end of its Percentiles"});
  }
  current_.problems.insert(current_.problems.end(), open.problems.begin(), open.problems.end());
  if (!open.has_samples || !open.kind) return;
  open.metric.kind = *open.kind;
  open.metric.block = current_.block;
  current_.raw.metrics.push_back(std::move(open.metric));
}

// ---- a counter ------------------------------------------------------------------------------------------------------

void LineParser::end_counter(const LogLine& line) {
  const auto value = read_number<int64_t>(line.value);
  if (!value) return unreadable(line, "expected an integer");
  const std::string name = std::exchange(counter_, {});
  ReportCounter* known = find_counter(name);
  // The same name in both registries is one counter. If the block has only counters, the repeated name begins a new
  // report.
  const auto of_block = [&](const RawMetric& metric) { return metric.block == current_.block; };
  if (known != nullptr && std::ranges::none_of(current_.raw.metrics, of_block)) {
    begin_report();
    known = nullptr;
  }
  begin_entry(true, counter_line_);
  if (known == nullptr) {
    current_.raw.counters.push_back({name, current_.block, *value});
  } else if (!name.starts_with("aten::") || known->value != *value) {  // a short report may print these twice
    known->value += *value;
  }
  if (line.is_unended)
    current_.problems.push_back(
        {line.number, "the text ends within the value of " + name + ", which may be truncated"});
}

ReportCounter* LineParser::find_counter(std::string_view name) {
  const auto found = std::ranges::find(current_.raw.counters, name, &ReportCounter::name);
  return found != current_.raw.counters.end() ? &*found : nullptr;
}

bool LineParser::repeats(std::string_view metric) const {
  return std::ranges::find(current_.raw.metrics, metric, &RawMetric::name) != current_.raw.metrics.end();
}

// ---- reports --------------------------------------------------------------------------------------------------------

void LineParser::begin_entry(bool is_counter, int line) {
  if (!is_counter && current_.last_was_counter) {
    // The rest of a report whose beginning was cut ends with its counters.
    if (current_.beginning_is_cut && gap_) {
      begin_report();
    } else {
      ++current_.block;
    }
  }
  if (current_.line == 0) {
    current_.beginning_is_cut &= !gap_;
    if (current_.beginning_is_cut) current_.problems.push_back({line, "the report begins in the middle of an entry"});
    current_.line = line;
    current_.step = std::exchange(step_, {});
  }
  current_.last_was_counter = is_counter;
  gap_ = false;
}

void LineParser::begin_report() {
  if (!current_.empty()) {
    ++reports_;
    last_ = std::move(current_);
  }
  current_ = {};
}

void LineParser::end() {
  end_metric();
  begin_report();
}

ReportReading LineParser::take(std::optional<DurationStyle> style) && {
  ReportReading reading;
  reading.durations = decide_durations(last_.raw, style);
  reading.report = resolved(last_.raw, reading.durations.style);
  reading.line = last_.line;
  reading.rank = rank_;
  reading.step = last_.step;
  reading.problems = std::move(last_.problems);
  return reading;
}

}  // namespace

std::optional<ReportReading> read_report(std::string_view text, std::optional<DurationStyle> style) {
  std::map<int, LineParser> ranks;
  for_each_line(text, [&](const LogLine& line) { ranks.try_emplace(line.rank, line.rank).first->second.add(line); });
  int reports = 0;
  for (auto& [rank, parser] : ranks) {
    parser.end();
    reports += parser.reports();
  }
  for (auto& [rank, parser] : ranks) {
    if (parser.reports() == 0) continue;
    ReportReading reading = std::move(parser).take(style);
    reading.reports = reports;
    return reading;
  }
  return {};
}

}  // namespace runner::report::xla
