// Fixture that writes CSV sections, and the contents of data sets.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/data/load.h"
#include "schema/base/large_array.h"
#include "tests/data/files.h"

namespace runner::data {

class LoadTest : public FileTest {
 protected:
  schema::DataSpec csv(std::string_view train, std::string_view eval = "") {
    schema::DataSpec spec;
    spec.train = csv_spec(write("train.csv", train));
    if (!eval.empty()) spec.eval = csv_spec(write("eval.csv", eval));
    return spec;
  }
};

inline LargeArray<int64_t> all_ids(const Dataset& set) {
  LargeArray<int64_t> ids(static_cast<size_t>(set.size()));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

inline LargeArray<float> features_of(const Dataset& set) {
  LargeArray<float> values(static_cast<size_t>(set.size() * set.feature_shape().elements()));
  set.gather_features(all_ids(set), values);
  return values;
}

inline LargeArray<int64_t> classes_of(const Dataset& set) {
  LargeArray<int64_t> values(static_cast<size_t>(set.size() * set.label_width()));
  set.gather_classes(all_ids(set), values);
  return values;
}

inline LargeArray<float> targets_of(const Dataset& set) {
  LargeArray<float> values(static_cast<size_t>(set.size() * set.outputs()));
  set.gather_targets(all_ids(set), values);
  return values;
}

// CSV with columns x and l, where x = row and l = row mod 3.
inline std::string counting(int rows) {
  std::string text = "x,l\n";
  for (int i = 0; i < rows; ++i) text += fmt::format("{},{}\n", i, i % 3);
  return text;
}

inline schema::DataSpec synthetic(int64_t samples, std::vector<int64_t> shape, int64_t classes, int64_t targets = 0) {
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kSynthetic;
  spec.train.samples = samples;
  spec.train.feature_shape = std::move(shape);
  if (classes > 0) spec.train.classes = classes;
  if (targets > 0) spec.train.targets = targets;
  return spec;
}

// Mean and population standard deviation in long double.
inline std::pair<long double, long double> moments(const LargeArray<float>& values) {
  long double mean = 0, variance = 0;
  for (const float v : values) mean += v;
  mean /= static_cast<long double>(values.size());
  for (const float v : values) variance += (v - mean) * (v - mean);
  return {mean, std::sqrt(variance / static_cast<long double>(values.size()))};
}

}  // namespace runner::data
