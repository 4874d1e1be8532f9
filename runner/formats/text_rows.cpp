#include "runner/formats/text_rows.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "schema/base/clock.h"
#include "schema/base/json.h"

namespace runner::formats {

std::string csv_row(std::span<const std::string> fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += fields[i];
      continue;
    }
    line += '"';
    for (const char c : fields[i]) {
      if (c == '"') line += '"';
      line += c;
    }
    line += '"';
  }
  return line + '\n';
}

std::string csv_header(bool origins) {
  return origins ? "run,attempt,metric,step,time,value\n" : "metric,step,time,value\n";
}

std::string csv_point(const Scalar& point, const PointOrigin* origin) {
  std::vector<std::string> fields{std::string(point.tag), std::to_string(point.step), utc_time(point.time_ms),
                                  fmt::format("{}", point.value)};
  if (origin != nullptr) fields.insert(fields.begin(), {std::string(origin->run), std::to_string(origin->attempt)});
  return csv_row(fields);
}

namespace {

// JSON has no number for these.
json::Value number_or_word(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

}  // namespace

std::string json_point(const Scalar& point, const PointOrigin* origin) {
  json::Object object;
  if (origin != nullptr) object = {{"run", std::string(origin->run)}, {"attempt", origin->attempt}};
  object.emplace_back("metric", std::string(point.tag));
  object.emplace_back("step", point.step);
  object.emplace_back("time", utc_time(point.time_ms));
  object.emplace_back("value", number_or_word(point.value));
  return json::line(object);
}

}  // namespace runner::formats
