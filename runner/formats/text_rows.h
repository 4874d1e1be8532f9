// Writes lines of text: rows of csv, and metric points as csv and JSON. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runner/formats/tensorboard.h"

namespace runner::formats {

// ---- rows of csv: RFC 4180, but with LF line ends -------------------------------------------------------------------

// Returns one line, quoting fields where necessary.
std::string csv_row(std::span<const std::string> fields);

// ---- metric points, for `runner export` and for the log files of a run in training ----------------------------------

// Run and attempt that recorded a point, for files with points of several runs.
struct PointOrigin {
  std::string_view run;
  int64_t attempt = 1;
};

// CSV with columns metric, step, time and value; with an origin, run and attempt come first. A value is the shortest
// text that parses to the same double.
std::string csv_header(bool origins);
std::string csv_point(const Scalar& point, const PointOrigin* origin = nullptr);

// A JSON object with the same members. Values that are not finite become null.
std::string json_point(const Scalar& point, const PointOrigin* origin = nullptr);

}  // namespace runner::formats
