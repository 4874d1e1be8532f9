#include "runner/formats/points.h"

#include <vector>

#include <fmt/format.h>

#include "runner/formats/csv.h"
#include "schema/base/clock.h"
#include "schema/base/json.h"

namespace runner::formats {

std::string csv_header(bool origins) {
  return origins ? "run,attempt,metric,step,time,value\n" : "metric,step,time,value\n";
}

std::string csv_point(const Scalar& point, const PointOrigin* origin) {
  std::vector<std::string> fields{std::string(point.tag), std::to_string(point.step), utc_time(point.time_ms),
                                  fmt::format("{}", point.value)};
  if (origin != nullptr) fields.insert(fields.begin(), {std::string(origin->run), std::to_string(origin->attempt)});
  return csv_row(fields);
}

std::string json_point(const Scalar& point, const PointOrigin* origin) {
  json::Object object;
  if (origin != nullptr) object = {{"run", std::string(origin->run)}, {"attempt", origin->attempt}};
  object.emplace_back("metric", std::string(point.tag));
  object.emplace_back("step", point.step);
  object.emplace_back("time", utc_time(point.time_ms));
  object.emplace_back("value", point.value);
  return json::line(object);
}

}  // namespace runner::formats
