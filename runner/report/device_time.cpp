#include "runner/report/device_time.h"

#include <fmt/format.h>

#include "runner/report/format.h"
#include "schema/base/duration.h"
#include "schema/base/text.h"

namespace runner::report {

std::string seconds_range_text(double least, double most) {
  const std::string first = duration_text(least), last = duration_text(most);
  return first == last ? first : fmt::format("{} … {}", first, last);
}

std::string device_time_text(const DeviceTime& time) {
  const std::string slow = short_text(time.samples / time.most), fast = short_text(time.samples / time.least);
  const auto steps = static_cast<double>(time.steps);
  const std::string text = fmt::format(
      "{} per step, {} samples per second, {} for {} on {}", seconds_range_text(time.least, time.most),
      slow == fast ? slow : fmt::format("{} … {}", slow, fast),
      seconds_range_text(time.least * steps, time.most * steps), count_text(time.steps, "step"), time.device);
  return time.advice.empty() ? text : text + '\n' + time.advice;
}

json::Value device_time_json(const DeviceTime& time) {
  const auto steps = static_cast<double>(time.steps);
  return json::Object{{"device", time.device},
                      {"step_seconds", json::List{time.least, time.most}},
                      {"samples_per_second", json::List{time.samples / time.most, time.samples / time.least}},
                      {"training_seconds", json::List{time.least * steps, time.most * steps}},
                      {"advice", json::or_null(time.advice)}};
}

}  // namespace runner::report
