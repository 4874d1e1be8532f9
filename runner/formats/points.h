// Metric points as lines of text: what `runner export` writes of a run that is there, and logs of one that trains.
//
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runner/formats/tensorboard.h"

namespace runner::formats {

// Which attempt of which run a point is of, for files that have points of several.
struct PointOrigin {
  std::string_view run;
  int64_t attempt = 1;
};

// "metric,step,time,value", with an origin "run,attempt" before it; a value is the shortest text that reads back as it.
std::string csv_header(bool origins);
std::string csv_line(const Scalar& point, const PointOrigin* origin = nullptr);

// A JSON object with the same members; what is not finite is null.
std::string json_line(const Scalar& point, const PointOrigin* origin = nullptr);

}  // namespace runner::formats
