// Expected batches of a counting data set: copies of what a loader yields, and the same computed from the plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/data/order.h"
#include "runner/data/plan.h"
#include "tests/data/files.h"

namespace runner::data {

// A CSV file in which sample i has features (i, -i) and class i mod 5, or target 2 i.
inline std::string counting_csv(int64_t samples, bool targets = false) {
  std::string text = "a,b,l\n";
  for (int64_t i = 0; i < samples; ++i) text += fmt::format("{},{},{}\n", i, -i, targets ? 2 * i : i % 5);
  return text;
}

class CountingTest : public FileTest {
 protected:
  Dataset counting(int64_t samples, bool targets = false) {
    schema::DataSpec spec;
    spec.train = csv_spec(write("x.csv", counting_csv(samples, targets)));
    return load(spec, 0, targets ? LabelsAs::kTargets : LabelsAs::kAuto).train;
  }
};

// A copy of a batch.
struct Copy {
  Position position;
  bool last = false;
  std::vector<int64_t> ids, classes;
  std::vector<float> features, targets, weights;  // the features of a text are the bytes of its tokens
  bool operator==(const Copy&) const = default;
};

inline std::vector<int64_t> tokens_of(const Copy& batch) {
  const auto tokens = values_of<int64_t>(std::as_bytes(std::span(batch.features)));
  return {tokens.begin(), tokens.end()};
}

inline Copy copy_of(const Batch& batch) {
  EXPECT_EQ(batch.size, static_cast<int64_t>(batch.ids.size()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.inputs[0].data()) % 64, 0u);
  return {batch.position,
          batch.last_of_epoch,
          {batch.ids.begin(), batch.ids.end()},
          {batch.classes.begin(), batch.classes.end()},
          {batch.features().begin(), batch.features().end()},
          {batch.targets.begin(), batch.targets.end()},
          {batch.weights.begin(), batch.weights.end()}};
}

inline std::vector<Copy> take(Loader& loader, int64_t count) {
  std::vector<Copy> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(copy_of(loader.next()));
  return batches;
}

// Computes a batch of a CSV file with classes from the plan and the order of its epoch, sample by sample.
inline Copy planned_batch(const DataPlan& plan, const Order& order, int64_t rank, const Position& position) {
  const Slice slice = plan.slice(rank, position.step);
  Copy batch;
  batch.position = position;
  batch.last = position.step + 1 == plan.steps_per_epoch();
  for (int64_t i = 0; i < slice.size(); ++i) {
    const int64_t id = order[slice.position(i)];
    batch.ids.push_back(id);
    batch.classes.push_back(id % 5);
    batch.features.push_back(static_cast<float>(id));
    batch.features.push_back(static_cast<float>(-id));
    batch.weights.push_back(i < slice.real ? 1.0f : 0.0f);
  }
  return batch;
}

}  // namespace runner::data
