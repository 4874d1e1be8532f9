// Compares two runs. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/queries.h"

namespace runner::report {

struct Comparison {
  struct Difference {
    std::string key;
    std::optional<store::Param::Value> a, b;  // nullopt if a run does not have the key
  };
  struct Metric {
    std::string name;
    double a, b;  // newest values; NaN if a run does not have the metric
  };

  std::string a, b;  // run ids
  std::vector<Difference> params;
  bool has_data = false;         // the files of either run are recorded
  std::vector<Difference> data;  // files by the key of the recipe that names them; their paths are not compared
  std::vector<Difference> environment;
  struct Cost {
    double seconds = 0;  // of all attempts
    // Of the newest attempt; none if it has not ended.
    std::optional<int64_t> peak_memory;                   // bytes of tensors
    std::optional<std::array<double, 2>> device_seconds;  // least and most, predicted for the emulated device
  };
  Cost cost_a, cost_b;
  std::vector<Metric> metrics;        // all metrics of both runs, by name
  std::vector<store::Damage> damage;  // of both runs
};

// A part of the record that is damaged in one run is not compared.
Comparison compare(const store::RunDetails& a, const store::RunDetails& b);

std::string comparison_text(const Comparison& comparison, int width, bool color);
std::string comparison_document(const Comparison& comparison);

}  // namespace runner::report
