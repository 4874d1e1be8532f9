// Compares the printed plan with the loaders that Accelerate prepares (tests/golden/data_plan.json), batch by batch.
// Where the plan differs on purpose, compares it with our own rule.
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "runner/data/order.h"
#include "runner/data/plan.h"
#include "schema/base/error.h"
#include "tests/golden/golden.h"
#include "tests/support/json.h"

namespace runner::data {
namespace {

using support::Json;
using testing::Golden;
using Indices = std::vector<int64_t>;
using Shard = std::vector<std::vector<Indices>>;  // [rank][batch]

// A line of a case: PROCESSES BATCH_SIZE SAMPLES, then REMAINDER: SHARES or the name of an error.
struct Point {
  PlanSpec spec;
  std::string error;
  int64_t remainder = -1;  // number of samples of the last step that gather_for_metrics keeps; 0: all; −1: unknown
  Shard shard;
  bool has_empty_batches = false;
};

// Parses ranges such as "18-19,0".
Indices parse_runs(const std::string& text) {
  Indices indices;
  std::istringstream runs(text);
  for (std::string run; std::getline(runs, run, ',');) {
    const size_t dash = run.find('-');
    const int64_t first = std::stoll(run), last = dash == std::string::npos ? first : std::stoll(run.substr(dash + 1));
    for (int64_t i = first; i <= last; ++i) indices.push_back(i);
  }
  return indices;
}

Point parse_point(const std::string& text, const PlanSpec& flags) {
  Point point;
  point.spec = flags;
  std::istringstream words(text);
  std::string word;
  words >> point.spec.processes >> point.spec.batch_size >> point.spec.samples >> word;
  if (!word.ends_with(':')) {
    point.error = word;
    return point;
  }
  point.remainder = std::stoll(word);
  point.shard.emplace_back();
  while (words >> word) {
    if (word == "|") {
      point.shard.emplace_back();
    } else if (word == "-") {
      point.has_empty_batches = true;
    } else if (word != "none") {
      point.shard.back().push_back(parse_runs(word));
    }
  }
  EXPECT_EQ(std::ssize(point.shard), point.spec.processes) << text;
  return point;
}

Shard indices_in(const Json& ranks) {
  Shard shard;
  for (const Json& rank : ranks.items()) {
    shard.emplace_back();
    for (const Json& batch : rank.items()) {
      shard.back().emplace_back();
      for (const Json& index : batch.items()) shard.back().back().push_back(index.integer());
    }
  }
  return shard;
}

// Returns the positions in each batch of samples that occurred before: in an earlier step, in the same step on a lower
// rank, or earlier in the same batch.
Shard repeats_in(const Shard& shard) {
  Shard repeats(shard.size());
  size_t steps = 0;
  for (const auto& share : shard) steps = std::max(steps, share.size());
  std::set<int64_t> seen;
  for (size_t step = 0; step < steps; ++step) {
    for (size_t r = 0; r < shard.size(); ++r) {
      if (step >= shard[r].size()) continue;
      repeats[r].emplace_back();
      for (size_t i = 0; i < shard[r][step].size(); ++i) {
        if (!seen.insert(shard[r][step][i]).second) repeats[r][step].push_back(static_cast<int64_t>(i));
      }
    }
  }
  return repeats;
}

struct Printed {
  Shard batches, padding;
};

Printed printed(const DataPlan& plan) {
  Order order(plan.spec().samples, 0, /*shuffle=*/false);
  const Json epoch = Json::parse(plan_json(plan, order, 1, true))["epochs"][0];
  return {indices_in(epoch["batches"]), indices_in(epoch["padding"])};
}

int64_t real_samples(const DataPlan& plan, int64_t step) {
  int64_t real = 0;
  for (int64_t r = 0; r < plan.spec().processes; ++r) real += plan.slice(r, step).real;
  return real;
}

// Our rule for cases in which Accelerate rejects a batch size not divisible by P, or loses samples with batch size 1.
// The samples of a step are read in order, each once, in shares whose sizes differ by at most one.
void check_uneven_shares(const DataPlan& plan) {
  const PlanSpec& spec = plan.spec();
  int64_t next = 0;
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    const bool full = next + spec.batch_size <= spec.samples;
    int64_t least = INT64_MAX, most = 0, real = 0;
    for (int64_t r = 0; r < spec.processes; ++r) {
      const Slice slice = plan.slice(r, step);
      for (int64_t i = 0; i < slice.real; ++i) ASSERT_EQ(slice.position(i), next++);
      if (full && !spec.dispatch_batches) {
        ASSERT_EQ(slice.repeats, 0);
      }
      least = std::min(least, slice.size());
      most = std::max(most, slice.size());
      real += slice.real;
    }
    ASSERT_EQ(real, full ? spec.batch_size : spec.samples % spec.batch_size);
    if (full || spec.dispatch_batches || spec.even_batches) {
      ASSERT_LE(most - least, 1);
    }
  }
  ASSERT_EQ(next, spec.drop_last ? spec.samples / spec.batch_size * spec.batch_size : spec.samples);
}

// Compares a point and returns the result: equal to Accelerate, or the rule of ours that applies.
std::string compare(const Point& point) {
  const PlanSpec& spec = point.spec;
  const int64_t group = spec.split_batches ? spec.batch_size : spec.batch_size * spec.processes;
  if (spec.drop_last && spec.samples < group) {  // Accelerate iterates over nothing, or throws
    for (const auto& share : point.shard) EXPECT_TRUE(share.empty());
    EXPECT_THROW(DataPlan{spec}, Error);
    return "an epoch without a batch is an error";
  }
  const DataPlan plan(spec);
  if (spec.split_batches && spec.batch_size % spec.processes != 0) {
    check_uneven_shares(plan);
    EXPECT_TRUE(point.error == "ValueError" || spec.batch_size == 1);
    return "uneven shares";
  }
  EXPECT_EQ(point.error, "");
  const Printed ours = printed(plan);
  EXPECT_EQ(ours.batches, point.shard);
  EXPECT_EQ(ours.padding, repeats_in(point.shard));
  const int64_t last = real_samples(plan, plan.steps_per_epoch() - 1);
  const int64_t known = point.remainder < 0 ? -1 : spec.dispatch_batches ? last : last % group;
  EXPECT_EQ(point.remainder, known);
  return point.has_empty_batches ? "same without empty batches" : "same";
}

using Verdicts = std::map<std::string, int>;

Verdicts compare_all(const std::string& kind) {
  Verdicts verdicts;
  for (const Golden& item : Golden::load("data_plan.json").cases()) {
    if (item["kind"].text() != kind) continue;
    const PlanSpec flags{.split_batches = item["split_batches"].flag(),
                         .drop_last = item["drop_last"].flag(),
                         .even_batches = kind != "shard" || item["even_batches"].flag(),
                         .dispatch_batches = kind == "dispatch"};
    for (const Golden& text : item["points"].items()) {
      SCOPED_TRACE(item.name() + ": " + text.text());
      Point point = parse_point(text.text(), flags);
      ++verdicts[compare(point)];
      if (kind != "dispatch") continue;
      point.spec.even_batches = false;  // ignored by Accelerate's dispatcher and by us
      compare(point);
    }
  }
  return verdicts;
}

// The counts ensure that the grid does not shrink unnoticed.
TEST(DataPlanOfAccelerate, ShardsOfDataSets) {
  EXPECT_EQ(compare_all("shard"),
            (Verdicts{{"same", 782}, {"uneven shares", 86}, {"an epoch without a batch is an error", 244}}));
}

// Streams ignore even_batches: they always pad.
TEST(DataPlanOfAccelerate, ShardsOfStreams) {
  EXPECT_EQ(compare_all("stream"),
            (Verdicts{{"same", 391}, {"uneven shares", 43}, {"an epoch without a batch is an error", 122}}));
}

TEST(DataPlanOfAccelerate, DispatchedBatches) {
  EXPECT_EQ(compare_all("dispatch"), (Verdicts{{"same", 366},
                                               {"same without empty batches", 25},
                                               {"uneven shares", 43},
                                               {"an epoch without a batch is an error", 122}}));
}

}  // namespace
}  // namespace runner::data
