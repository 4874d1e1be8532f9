// Compares the plan's closed form with a direct transcription of the sharding rules and with Accelerate's own test
// cases. Also checks general properties.
#include "runner/data/plan.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "runner/data/order.h"
#include "schema/base/error.h"
#include "tests/support/json.h"

namespace runner::data {
namespace {

using Indices = std::vector<int64_t>;

struct Planned {
  Indices indices;
  int64_t repeats = 0;  // number of padding samples at the end
  bool operator==(const Planned&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Planned& batch) {
  out << "[";
  for (const int64_t i : batch.indices) out << i << " ";
  return out << "| " << batch.repeats << "]";
}

using Shards = std::vector<std::vector<Planned>>;  // [rank][batch]

// ---- The rules, transcribed for lists.

std::vector<Indices> batches_of(int64_t samples, int64_t batch_size, bool drop_last) {
  std::vector<Indices> batches;
  for (int64_t i = 0; i < samples; ++i) {
    if (i % batch_size == 0) batches.emplace_back();
    batches.back().push_back(i);
  }
  if (drop_last && !batches.empty() && static_cast<int64_t>(batches.back().size()) < batch_size) batches.pop_back();
  return batches;
}

Shards shard_whole_batches(const PlanSpec& s) {
  const auto B = static_cast<size_t>(s.batch_size), P = static_cast<size_t>(s.processes);
  const std::vector<Indices> batches = batches_of(s.samples, s.batch_size, s.drop_last);
  Shards shards(P);
  size_t whole = 0;  // number of batches in complete rounds
  while (whole + P <= batches.size() && batches[whole + P - 1].size() == B) whole += P;
  for (size_t j = 0; j < whole; ++j) shards[j % P].push_back({batches[j]});
  if (s.drop_last || whole == batches.size()) return shards;
  Indices pool;
  for (size_t j = 0; j < std::min(P, batches.size()); ++j) {
    pool.insert(pool.end(), batches[j].begin(), batches[j].end());
  }
  size_t cursor = 0;
  for (size_t p = 0; p < P; ++p) {
    Planned batch;
    if (whole + p < batches.size()) batch.indices = batches[whole + p];
    if (s.even_batches) {
      while (batch.indices.size() < B) {
        batch.indices.push_back(pool[cursor++ % pool.size()]);
        ++batch.repeats;
      }
    }
    if (!batch.indices.empty()) shards[p].push_back(batch);
  }
  return shards;
}

Shards shard_split_batches(const PlanSpec& s) {
  const auto B = static_cast<size_t>(s.batch_size), P = static_cast<size_t>(s.processes);
  const std::vector<Indices> batches = batches_of(s.samples, s.batch_size, s.drop_last);
  Shards shards(P);
  for (Indices batch : batches) {
    const size_t real = batch.size();
    for (size_t i = 0; s.even_batches && batch.size() < B; ++i) batch.push_back(batches[0][i % batches[0].size()]);
    for (size_t p = 0; p < P; ++p) {
      Planned share;
      for (size_t i = p * B / P; i < (p + 1) * B / P && i < batch.size(); ++i) {
        share.indices.push_back(batch[i]);
        if (i >= real) ++share.repeats;
      }
      if (!share.indices.empty()) shards[p].push_back(share);
    }
  }
  return shards;
}

Shards shard_dispatched(const PlanSpec& s) {
  const auto P = static_cast<size_t>(s.processes);
  const std::vector<Indices> batches = batches_of(s.samples, s.batch_size, s.drop_last);
  std::vector<Indices> groups;
  for (size_t j = 0; j < batches.size(); ++j) {
    if (s.split_batches || j % P == 0) groups.emplace_back();
    groups.back().insert(groups.back().end(), batches[j].begin(), batches[j].end());
  }
  if (!s.split_batches && s.drop_last && batches.size() % P != 0) groups.pop_back();
  Shards shards(P);
  for (size_t g = 0; g < groups.size(); ++g) {
    Indices group = groups[g];
    const size_t real = group.size();
    const bool uneven = g + 1 == groups.size() && !s.drop_last && real % P != 0;
    if (uneven) {
      for (size_t i = 0; i < P && i < groups[0].size(); ++i) group.push_back(groups[0][i]);
    }
    for (size_t p = 0; p < P; ++p) {
      const size_t begin = uneven ? p * (real / P + 1) : p * real / P;
      const size_t end = uneven ? begin + real / P + 1 : (p + 1) * real / P;
      Planned share;
      for (size_t i = begin; i < end && i < group.size(); ++i) {
        share.indices.push_back(group[i]);
        if (i >= real) ++share.repeats;
      }
      if (!share.indices.empty()) shards[p].push_back(share);
    }
  }
  return shards;
}

Shards by_the_rules(const PlanSpec& s) {
  if (s.processes == 1) {
    Shards shards(1);
    for (const Indices& batch : batches_of(s.samples, s.batch_size, s.drop_last)) shards[0].push_back({batch});
    return shards;
  }
  if (s.dispatch_batches) return shard_dispatched(s);
  return s.split_batches ? shard_split_batches(s) : shard_whole_batches(s);
}

// ---- The plan.

Shards by_the_plan(const DataPlan& plan) {
  Shards shards(static_cast<size_t>(plan.spec().processes));
  Order order(plan.spec().samples, 0, false);
  for (size_t r = 0; r < shards.size(); ++r) {
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      const Slice slice = plan.slice(static_cast<int64_t>(r), step);
      if (slice.size() == 0) continue;
      Planned batch{Indices(static_cast<size_t>(slice.size())), slice.repeats};
      sample_ids(slice, order, batch.indices);
      shards[r].push_back(batch);
    }
  }
  return shards;
}

std::string describe(const PlanSpec& s) {
  return fmt::format("N={} B={} P={} split={} even={} drop={} dispatch={}", s.samples, s.batch_size, s.processes,
                     s.split_batches, s.even_batches, s.drop_last, s.dispatch_batches);
}

template <class Check>
int for_each_point(Check check) {
  int points = 0;
  for (const int64_t samples : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 21, 22, 23, 24, 31, 32, 33, 64, 97}) {
    for (const int64_t batch_size : {1, 2, 3, 4, 5, 6, 8, 12}) {
      for (const int64_t processes : {1, 2, 3, 4, 5, 8}) {
        for (int flags = 0; flags < 16; ++flags) {
          check(PlanSpec{.samples = samples,
                         .batch_size = batch_size,
                         .processes = processes,
                         .split_batches = (flags & 1) != 0,
                         .drop_last = (flags & 2) != 0,
                         .even_batches = (flags & 4) != 0,
                         .dispatch_batches = (flags & 8) != 0});
          ++points;
        }
      }
    }
  }
  return points;
}

bool has_batches(const PlanSpec& s) {
  return !s.drop_last || s.samples >= (s.split_batches ? s.batch_size : s.batch_size * s.processes);
}

TEST(DataPlan, FollowsTheRulesOnAGrid) {
  const int points = for_each_point([](const PlanSpec& spec) {
    const Shards expected = by_the_rules(spec);
    size_t steps = 0;
    for (const auto& shard : expected) steps = std::max(steps, shard.size());
    if (steps == 0) {
      EXPECT_THROW(DataPlan{spec}, Error) << describe(spec);
      return;
    }
    const DataPlan plan(spec);
    ASSERT_EQ(by_the_plan(plan), expected) << describe(spec);
    // With uneven shares, a rank may have no batch in any step, so no rank need have a batch in all of them.
    if (!spec.split_batches || spec.batch_size % spec.processes == 0) {
      ASSERT_EQ(plan.steps_per_epoch(), static_cast<int64_t>(steps)) << describe(spec);
    }
    int64_t repeats = 0, largest = 0;
    for (const auto& shard : expected) {
      for (const Planned& batch : shard) {
        repeats += batch.repeats;
        largest = std::max(largest, static_cast<int64_t>(batch.indices.size()));
      }
    }
    ASSERT_EQ(plan.repeats_per_epoch(), repeats) << describe(spec);
    ASSERT_EQ(plan.max_batch(), largest) << describe(spec);
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      int64_t most = 0;
      for (int64_t r = 0; r < spec.processes; ++r) most = std::max(most, plan.slice(r, step).size());
      ASSERT_EQ(plan.largest_share(step), most) << describe(spec) << " step " << step;
    }
  });
  EXPECT_EQ(points, 22 * 8 * 6 * 16);
}

TEST(DataPlan, GlobalOrderDoesNotDependOnTheNumberOfRanks) {
  for_each_point([](const PlanSpec& spec) {
    if (!has_batches(spec)) return;
    const DataPlan plan(spec);
    int64_t next = 0;
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      ASSERT_EQ(plan.consumed(step), next);
      for (int64_t r = 0; r < spec.processes; ++r) {
        const Slice slice = plan.slice(r, step);
        for (int64_t i = 0; i < slice.real; ++i) ASSERT_EQ(slice.position(i), next++) << describe(spec);
      }
    }
    ASSERT_EQ(next, plan.samples_per_epoch());
    ASSERT_EQ(next, spec.drop_last ? spec.samples / plan.global_batch_size() * plan.global_batch_size() : spec.samples);
    ASSERT_TRUE(spec.processes > 1 || plan.repeats_per_epoch() == 0);
  });
}

TEST(DataPlan, OptimizerStepsPartitionTheEpoch) {
  for (const int64_t accumulation : {1, 2, 3, 4, 7, 100}) {
    for_each_point([&](PlanSpec spec) {
      if (!has_batches(spec)) return;
      spec.accumulation = accumulation;
      const DataPlan plan(spec);
      int64_t step = 0;
      for (int64_t w = 0; w < plan.optimizer_steps(1); ++w) {
        const OptimizerStep optimizer_step = plan.optimizer_step(w);
        ASSERT_EQ(optimizer_step.first_step, step);
        int64_t samples = 0;
        for (int64_t k = 0; k < optimizer_step.steps; ++k, ++step) {
          for (int64_t r = 0; r < spec.processes; ++r) samples += plan.slice(r, step).real;
        }
        ASSERT_EQ(optimizer_step.samples, samples);
        ASSERT_TRUE(optimizer_step.steps == accumulation || step == plan.steps_per_epoch());
      }
      ASSERT_EQ(step, plan.steps_per_epoch());
    });
  }
}

TEST(DataPlan, OptimizerStepsAcrossEpochsAreAllFull) {
  for (const int64_t accumulation : {1, 2, 3, 4, 7, 100}) {
    for_each_point([&](PlanSpec spec) {
      if (!has_batches(spec)) return;
      spec.accumulation = accumulation;
      spec.steps_end_with_epoch = false;
      const DataPlan plan(spec);
      const int64_t steps = plan.steps_per_epoch(), epochs = 5;
      const auto samples_of = [&](int64_t step) {
        return plan.consumed(step % steps + 1) - plan.consumed(step % steps);
      };
      ASSERT_EQ(plan.optimizer_steps(epochs), epochs * steps / accumulation);
      for (int64_t w = 0; w < plan.optimizer_steps(epochs); ++w) {
        const OptimizerStep optimizer_step = plan.optimizer_step(w);
        ASSERT_EQ(optimizer_step.first_step, w * accumulation);
        ASSERT_EQ(optimizer_step.steps, accumulation);
        int64_t samples = 0;
        for (int64_t step = optimizer_step.first_step; step < optimizer_step.first_step + accumulation; ++step)
          samples += samples_of(step);
        ASSERT_EQ(optimizer_step.samples, samples);
      }
      // The rest of the first epoch under a plan that starts within it, and samples_ahead().
      const DataPlan rest = plan.from(plan.consumed(steps / 2));
      ASSERT_EQ(plan.optimizer_steps(rest, epochs), (rest.steps_per_epoch() + (epochs - 1) * steps) / accumulation);
      int64_t ahead = 0;
      for (int64_t step = steps / 2; step < steps / 2 + accumulation; ++step) {
        ASSERT_EQ(plan.samples_ahead(steps / 2, step - steps / 2), ahead);
        ASSERT_EQ(rest.samples_ahead(0, step - steps / 2), ahead);
        ahead += samples_of(step);
      }
      for (int64_t r = 0; r < spec.processes; ++r) {
        int64_t of_rank = 0;
        for (int64_t step = steps / 2; step < steps / 2 + accumulation; ++step) {
          ASSERT_EQ(plan.samples_ahead_of(r, steps / 2, step - steps / 2), of_rank);
          of_rank += plan.slice(r, step % steps).real;
        }
      }
    });
  }
}

TEST(DataPlan, StartWithinAnEpochContinuesAtTheNextSample) {
  for_each_point([](const PlanSpec& spec) {
    if (!has_batches(spec)) return;
    const DataPlan plan(spec);
    for (int64_t done = 0; done <= plan.steps_per_epoch(); ++done) {
      PlanSpec rest = spec;
      rest.start = plan.consumed(done);
      const DataPlan continued(rest);
      ASSERT_EQ(continued.steps_per_epoch(), plan.steps_per_epoch() - done) << describe(spec);
      for (int64_t k = 0; k < continued.steps_per_epoch(); ++k) {
        for (int64_t r = 0; r < spec.processes; ++r) {
          const Slice a = continued.slice(r, k), b = plan.slice(r, done + k);
          ASSERT_EQ(a.size(), b.size());
          for (int64_t i = 0; i < a.size(); ++i) ASSERT_EQ(a.position(i), b.position(i)) << describe(spec);
        }
      }
    }
  });
}

// Returns the samples of the first optimizer steps, as positions counted over `epochs` epochs.
std::vector<Indices> steps_of(const DataPlan& plan, int64_t epochs) {
  std::vector<Indices> steps(1);
  int64_t batches = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t k = 0; k < plan.steps_per_epoch(); ++k) {
      for (int64_t i = plan.consumed(k); i < plan.consumed(k + 1); ++i)
        steps.back().push_back(epoch * plan.spec().samples + i);
      const bool ends = plan.spec().steps_end_with_epoch && k + 1 == plan.steps_per_epoch();
      if (++batches < plan.spec().accumulation && !ends) continue;
      batches = 0;
      steps.emplace_back();
    }
  }
  steps.pop_back();  // not complete
  return steps;
}

TEST(DataPlan, KnowsWhichBatchesGiveTheSameOptimizerSteps) {
  int64_t same = 0, other = 0;
  for (const bool drop_last : {false, true}) {
    for (const bool steps_end_with_epoch : {false, true}) {
      for (int64_t samples = 12; samples <= 26; ++samples) {
        const auto plan_of = [&](int64_t batch_size, int64_t accumulation) {
          return DataPlan({.samples = samples,
                           .batch_size = batch_size,
                           .drop_last = drop_last,
                           .accumulation = accumulation,
                           .steps_end_with_epoch = steps_end_with_epoch});
        };
        for (const int64_t a : {1, 2, 3, 4, 6, 12}) {
          for (const int64_t b : {1, 2, 3, 4, 6, 12}) {
            const DataPlan plan = plan_of(a, 12 / a), divided_anew = plan_of(b, 12 / b);
            const bool equal = plan.has_steps_of(divided_anew);
            const bool are_equal = steps_of(plan, 30) == steps_of(divided_anew, 30);
            // Across epochs, short batches may happen to divide the steps alike.
            ASSERT_TRUE(equal == are_equal || (are_equal && !steps_end_with_epoch))
                << samples << " samples, " << a << " and " << b << ", drop_last " << drop_last << ", "
                << steps_end_with_epoch;
            ASSERT_EQ(equal, divided_anew.has_steps_of(plan));
            (equal ? same : other) += a != b;
            ASSERT_FALSE(plan.has_steps_of(plan_of(b, 24 / b)));
          }
        }
      }
    }
  }
  EXPECT_GT(same, 500);
  EXPECT_GT(other, 500);
}

// Cases from Accelerate's tests/test_data_loader.py.
TEST(DataPlan, MatchesAcceleratesTests) {
  const auto indices = [](const PlanSpec& spec) {
    std::vector<std::vector<Indices>> shards;
    for (const auto& shard : by_the_plan(DataPlan(spec))) {
      shards.emplace_back();
      for (const Planned& batch : shard) shards.back().push_back(batch.indices);
    }
    return shards;
  };
  using Expected = std::vector<std::vector<Indices>>;
  EXPECT_EQ(indices({.samples = 21, .batch_size = 3, .processes = 2}),
            (Expected{{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18, 19, 20}},
                      {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}, {0, 1, 2}}}));
  EXPECT_EQ(indices({.samples = 22, .batch_size = 3, .processes = 2}),
            (Expected{{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18, 19, 20}},
                      {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}, {21, 0, 1}}}));
  EXPECT_EQ(
      indices({.samples = 20, .batch_size = 3, .processes = 2}),
      (Expected{{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18, 19, 0}}, {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}, {1, 2, 3}}}));
  EXPECT_EQ(indices({.samples = 2, .batch_size = 3, .processes = 2}), (Expected{{{0, 1, 0}}, {{1, 0, 1}}}));
  EXPECT_EQ(indices({.samples = 20, .batch_size = 3, .processes = 2, .even_batches = false}),
            (Expected{{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18, 19}}, {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}}}));
  EXPECT_EQ(indices({.samples = 21, .batch_size = 4, .processes = 2, .split_batches = true}),
            (Expected{{{0, 1}, {4, 5}, {8, 9}, {12, 13}, {16, 17}, {20, 0}},
                      {{2, 3}, {6, 7}, {10, 11}, {14, 15}, {18, 19}, {1, 2}}}));
  EXPECT_EQ(indices({.samples = 2, .batch_size = 4, .processes = 2, .split_batches = true}),
            (Expected{{{0, 1}}, {{0, 1}}}));
  EXPECT_EQ(indices({.samples = 2, .batch_size = 4, .processes = 2, .split_batches = true, .even_batches = false}),
            (Expected{{{0, 1}}, {}}));
  EXPECT_EQ(indices({.samples = 20, .batch_size = 3, .processes = 2, .dispatch_batches = true}),
            (Expected{{{0, 1, 2}, {6, 7, 8}, {12, 13, 14}, {18}}, {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}, {19}}}));
}

TEST(DataPlan, PadLastFillsUpTheLastOfSeveralSteps) {
  const PlanSpec spec{.samples = 7, .batch_size = 3, .even_batches = false, .pad_last = true};
  const DataPlan plan(spec);
  const Slice last = plan.slice(0, 2);
  EXPECT_EQ(last.real, 1);
  EXPECT_EQ(last.repeats, 2);
  EXPECT_EQ(last.position(0), 6);
  EXPECT_EQ(last.position(1), 0);
  EXPECT_EQ(plan.repeats_per_epoch(), 2);
  EXPECT_EQ(plan.slice(0, 1).repeats, 0);
  PlanSpec of_two = spec;
  of_two.processes = 2;
  EXPECT_EQ(DataPlan(of_two).slice(0, 1).repeats, 2);  // 6 is its only sample
  EXPECT_EQ(DataPlan(of_two).slice(1, 1).real, 0);
  EXPECT_EQ(DataPlan(of_two).slice(1, 1).repeats, 3);
  EXPECT_EQ(DataPlan(of_two).slice(1, 1).position(0), 2);
  PlanSpec single = spec;
  single.batch_size = 8;  // another size would save no graph
  EXPECT_EQ(DataPlan(single).slice(0, 0).size(), 7);
}

TEST(DataPlan, NeedsNoMemoryPerSample) {
  const DataPlan plan({.samples = INT32_MAX, .batch_size = 64, .processes = 8});
  EXPECT_EQ(plan.steps_per_epoch(), 4194304);
  const Slice last = plan.slice(7, plan.steps_per_epoch() - 1);
  EXPECT_EQ(last.real, 63);
  EXPECT_EQ(last.repeats, 1);
  EXPECT_EQ(last.position(63), 0);
}

TEST(DataPlan, AnEpochWithoutABatchIsAnError) {
  const auto message = [](const PlanSpec& spec) -> std::string {
    try {
      DataPlan plan(spec);
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), 2);
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(message({.samples = 0, .batch_size = 4}), "an epoch has no batches: the data set is empty");
  EXPECT_EQ(message({.samples = 7, .batch_size = 4, .processes = 2, .drop_last = true}),
            "an epoch has no batches: the data set has 7 samples, fewer than a global batch of 8, and drop_last is "
            "true; lower num_processes or data.batch_size, or set data.drop_last to false");
  EXPECT_EQ(message({.samples = 8, .batch_size = 4, .processes = 2, .drop_last = true}), "");
  EXPECT_EQ(message({.samples = 3, .batch_size = 4, .drop_last = true, .section = "eval"}),
            "an epoch has no batches: the data set has 3 samples, fewer than a global batch of 4, and drop_last is "
            "true; lower eval.batch_size, or set eval.drop_last to false");
}

TEST(DataPlan, WarnsOfUnusualPlans) {
  EXPECT_TRUE(DataPlan({.samples = 8, .batch_size = 4, .processes = 2, .accumulation = 1}).warnings().empty());
  const std::vector<std::string> warnings =
      DataPlan({.samples = 3, .batch_size = 2, .processes = 4, .accumulation = 2}).warnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "an epoch has 3 samples for 4 processes: some processes get only repeated samples");
  EXPECT_EQ(DataPlan({.samples = 1, .batch_size = 2, .processes = 2}).warnings()[0],
            "an epoch has 1 sample for 2 processes: some processes get only repeated samples");
  EXPECT_EQ(warnings[1],
            "gradient_accumulation_steps 2 exceeds the 1 batch of an epoch: each epoch is one optimizer step");
}

TEST(PlanOfARecipe, UsesItsFlags) {
  schema::Recipe recipe;
  recipe.num_processes = 3;
  recipe.split_batches = true;
  recipe.gradient_accumulation_steps = 5;
  recipe.data.batch_size = 12;
  recipe.data.drop_last = true;
  recipe.data.even_batches = false;
  recipe.data.dispatch_batches = true;
  const PlanSpec train = train_plan(recipe, 100);
  EXPECT_EQ(describe(train), "N=100 B=12 P=3 split=true even=false drop=true dispatch=true");
  EXPECT_EQ(train.accumulation, 5);
  recipe.eval.batch_size = 50;
  const PlanSpec eval = eval_plan(recipe, 60);
  EXPECT_EQ(describe(eval), "N=60 B=50 P=3 split=true even=false drop=false dispatch=false");
  EXPECT_EQ(eval.accumulation, 1);
  recipe.eval.drop_last = true;
  EXPECT_EQ(describe(eval_plan(recipe, 60)), "N=60 B=50 P=3 split=true even=false drop=true dispatch=false");
}

TEST(PlanJson, ListsEveryBatchAndItsPadding) {
  const DataPlan plan({.samples = 5, .batch_size = 2, .processes = 2, .accumulation = 2});
  Order order(5, 0, false);
  const std::string sizes =
      "{\"num_processes\": 2, \"global_batch_size\": 4, \"steps_per_epoch\": 2, \"optimizer_steps_per_epoch\": 1, "
      "\"samples_per_epoch\": 5, \"repeats_per_epoch\": 3, \"split_batches\": false, \"batch_size\": 2, "
      "\"gradient_accumulation_steps\": 2, \"last_step_samples\": 1, \"window\": {\"steps\": 2, \"samples\": 5}, "
      "\"last_window\": {\"steps\": 2, \"samples\": 5}";
  EXPECT_EQ(
      plan_json(plan, order, 2, true),
      sizes +
          ", \"epochs\": ["
          "{\"epoch\": 0, \"batches\": [[[0, 1], [4, 0]], [[2, 3], [1, 2]]], \"padding\": [[[], [1]], [[], [0, 1]]]}, "
          "{\"epoch\": 1, \"batches\": [[[0, 1], [4, 0]], [[2, 3], [1, 2]]], \"padding\": [[[], [1]], [[], [0, "
          "1]]]}]}");
  EXPECT_EQ(plan_json(plan, order, 2, false), sizes + "}");
}

TEST(PlanJson, RankWithoutBatchesHasAnEmptyList) {
  const DataPlan plan({.samples = 1, .batch_size = 2, .processes = 3, .even_batches = false});
  Order order(1, 0, false);
  const auto document = support::Json::parse(plan_json(plan, order, 1, true));
  EXPECT_EQ(document["epochs"][0]["batches"].dump(), "[[[0]],[],[]]");
  EXPECT_EQ(document["epochs"][0]["padding"].dump(), "[[[]],[],[]]");
}

TEST(PlanJson, FollowsTheOrderOfEachEpoch) {
  const DataPlan plan({.samples = 6, .batch_size = 4});
  Order order(6, 9, true);
  const auto document = support::Json::parse(plan_json(plan, order, 2, true));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    order.set_epoch(epoch);
    const auto& batches = document["epochs"][static_cast<size_t>(epoch)]["batches"][0];
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(batches[static_cast<size_t>(i / 4)][static_cast<size_t>(i % 4)], order[i]);
    }
  }
}

}  // namespace
}  // namespace runner::data
