// The time that training would take on the device that a backend emulates: predicted, not measured. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "schema/base/json.h"

namespace runner::report {

struct DeviceTime {
  std::string device;          // "a100-40g", "v4"
  double least = 0, most = 0;  // seconds of an optimizer step
  double samples = 0;          // of all processes in an optimizer step
  int64_t steps = 0;           // optimizer steps
  std::string advice = {};     // what limits a step, with the setting that helps; empty if nothing does
};

// "21.2 us … 60.6 us", or one time if both are equal.
std::string seconds_range_text(double least, double most);

// "73.1 us per step, 876k samples per second, 0.44 s for 6000 steps on a100-40g", followed by a line of advice.
std::string device_time_text(const DeviceTime& time);
// docs/cli.md lists the keys of `predicted_time`.
json::Value device_time_json(const DeviceTime& time);

}  // namespace runner::report
