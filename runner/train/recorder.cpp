#include "runner/train/recorder.h"

#include <cmath>
#include <limits>

namespace runner::train {
namespace {

// The other one where one is NaN.
double smaller(double a, double b) {
  return std::fmin(a, b);
}
double larger(double a, double b) {
  return std::fmax(a, b);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void Recorder::add(const std::string& name, int64_t step, double value) {
  auto found = series_.find(name);
  if (found == series_.end()) found = series_.emplace(name, Series{writer_.series(name), {kNan, kNan, kNan}}).first;
  writer_.push(found->second.index, step, value);
  MetricRange& range = found->second.range;
  range = {value, smaller(range.min, value), larger(range.max, value)};
}

void Recorder::resume(const std::string& name, const MetricRange& range) {
  series_.emplace(name, Series{writer_.series(name), range});
}

double Recorder::newest(const std::string& name) const {
  const auto found = series_.find(name);
  return found == series_.end() ? kNan : found->second.range.last;
}

std::map<std::string, MetricRange> Recorder::ranges() const {
  std::map<std::string, MetricRange> ranges;
  for (const auto& [name, series] : series_) ranges[name] = series.range;
  return ranges;
}

}  // namespace runner::train
