#include "runner/train/run/metric_recorder.h"

#include <cmath>
#include <limits>

#include "schema/base/error.h"
#include "schema/base/secrets.h"

namespace runner::train {
namespace {

// Like std::min, but if one argument is NaN returns the other.
double smaller(double a, double b) {
  return std::fmin(a, b);
}
double larger(double a, double b) {
  return std::fmax(a, b);
}

constexpr double kMissingPoint = std::numeric_limits<double>::quiet_NaN();

}  // namespace

store::SeriesIndex MetricRecorder::series_of(std::string_view name, std::string_view recorded_name) {
  if (writer_ == nullptr) return {};
  return writer_->series(recorded_name, maximizes(schema::Mode::kAuto, name, hooks_));
}

void MetricRecorder::add(std::string_view name, int64_t step, double value) {
  if (std::isnan(value)) value = kMissingPoint;  // with a fixed sign, which some formats would show
  auto found = series_.find(name);
  std::string hidden;
  const std::string_view original = name;
  if (found == series_.end()) {
    hidden = hide_secrets(std::string(name));
    name = hidden;
    found = series_.find(name);
  }
  constexpr size_t kMaxNames = 10'000;
  RUN_CHECK(found != series_.end() || series_.size() < kMaxNames, ErrorKind::kRun,
            "{} exceeds the limit of {} metrics per run; use the same metric names in every step", name, kMaxNames);
  if (found == series_.end())
    found =
        series_.emplace(name, Series{series_of(original, name), {kMissingPoint, kMissingPoint, kMissingPoint}, step})
            .first;
  Series& series = found->second;
  if (writer_ != nullptr) writer_->push(series.index, step, value);
  if (logs_ != nullptr) logs_->add(name, step, value);
  series.range = {value, smaller(series.range.min, value), larger(series.range.max, value)};
  series.step = step;
  series.is_of_weights = true;
}

void MetricRecorder::resume(const std::string& name, const MetricRange& range) {
  series_.emplace(name, Series{series_of(name, name), range, -1});
}

double MetricRecorder::newest(std::string_view name) const {
  auto found = series_.find(name);
  if (found == series_.end()) found = series_.find(hide_secrets(std::string(name)));
  return found == series_.end() ? kMissingPoint : found->second.range.last;
}

std::map<std::string, double> MetricRecorder::at(int64_t step) const {
  std::map<std::string, double> values;
  for (const auto& [name, series] : series_)
    if (series.step == step) values[name] = series.range.last;
  return values;
}

std::map<std::string, double> MetricRecorder::of_weights_at(int64_t step) const {
  std::map<std::string, double> values = at(step);
  std::erase_if(values, [&](const auto& value) { return !series_.at(value.first).is_of_weights; });
  return values;
}

void MetricRecorder::note_other_weights() {
  for (auto& [name, series] : series_) series.is_of_weights = false;
}

std::map<std::string, MetricRange> MetricRecorder::ranges() const {
  std::map<std::string, MetricRange> ranges;
  for (const auto& [name, series] : series_) ranges[name] = series.range;
  return ranges;
}

}  // namespace runner::train
