// The data plan: which positions of an epoch's order each rank reads in each step, as a pure function. Here, a step is
// one batch on every rank; an optimizer step consists of one or more of them.
//
// One rule covers all combinations of flags. Step k takes the next G positions: G = batch_size, times P unless
// split_batches is set. Rank r gets the share [r*G/P, (r+1)*G/P) of them, rounded down. The flags only matter if fewer
// than G positions are left for the last step:
//
// - drop_last: the positions are not used.
// - even_batches: every share is padded with samples from the start of the epoch's order, read cyclically.
// - dispatch_batches: the step is divided evenly. If P does not divide its size, every rank gets floor(size / P) + 1
//   samples. The missing ones are the first samples of the epoch, at most P of them.
// - pad_last: like even_batches, for any P, unless it is the only step.
// - otherwise: shares are truncated, and a rank with an empty share has no batch.
//
// With P = 1 only pad_last pads. Reference: BatchSamplerShard and DataLoaderDispatcher of Accelerate, which reject a
// batch_size that is not divisible by P; here the shares are then uneven.
//
// Padding samples are always at the end of a batch and are masked: they never affect a loss, a gradient or a metric.
// Immutable, and therefore thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe.h"

namespace runner::data {

class Order;

struct PlanSpec {
  int64_t samples = 0;
  int64_t batch_size = 1;
  int64_t processes = 1;
  bool split_batches = false;
  bool drop_last = false;
  bool even_batches = true;
  bool dispatch_batches = false;
  bool pad_last = false;              // fills up the last step if it is not the only one
  std::string_view section = "data";  // of the recipe, for errors
  int64_t accumulation = 1;           // batches per optimizer step (gradient accumulation)
  bool steps_end_with_epoch = true;
  int64_t start = 0;  // number of positions of the epoch that are already consumed, when resuming with another P
};

// Return the plan of training on `samples` samples, and the plan of evaluation. The latter uses the batch size of
// `eval` or `data`, and does not pad.
PlanSpec train_plan(const schema::Recipe& recipe, int64_t samples);
PlanSpec eval_plan(const schema::Recipe& recipe, int64_t samples);

// Batch of one rank: positions [begin, begin + real) of the order, followed by `repeats` padding samples. Padding
// sample j is at position (repeat_from + j) mod pool.
struct Slice {
  int64_t begin = 0;
  int64_t real = 0;
  int64_t repeats = 0;
  int64_t repeat_from = 0;
  int64_t pool = 1;

  int64_t size() const { return real + repeats; }
  int64_t position(int64_t i) const { return i < real ? begin + i : (repeat_from + i - real) % pool; }
};

// Batches of one optimizer step: steps [first_step, first_step + steps), with `samples` samples over all ranks, without
// padding. If accumulation continues across epochs, steps are counted from epoch 0.
struct OptimizerStep {
  int64_t first_step = 0;
  int64_t steps = 0;
  int64_t samples = 0;
};

class DataPlan {
 public:
  // Throws Error(kRecipe) if an epoch would have no batch.
  explicit DataPlan(const PlanSpec& spec);

  // Returns the plan for the rest of an epoch after its first `start` positions. It may have no batch.
  DataPlan from(int64_t start) const;
  // Returns the plan with another even_batches; none: the same.
  DataPlan with_even_batches(std::optional<bool> even) const;

  const PlanSpec& spec() const { return spec_; }
  int64_t global_batch_size() const { return group_; }
  // Number of samples of an optimizer step whose batches are full. At most INT64_MAX.
  int64_t full_step_size() const;
  // Whether every optimizer step has the same samples as with `other`, a plan of as many samples from the same start.
  bool has_steps_of(const DataPlan& other) const;
  int64_t steps_per_epoch() const { return steps_; }
  // Returns the number of optimizer steps in `epochs` consecutive epochs. If accumulation continues across epochs,
  // batches that do not complete an optimizer step are not counted.
  int64_t optimizer_steps(int64_t epochs) const;
  // A fraction if accumulation continues across epochs.
  double optimizer_steps_per_epoch() const;
  // As optimizer_steps(), if `rest` covers what remains of the first epoch. `before`: batches already accumulated for
  // the current optimizer step before `rest`; if negative, the number of batches of `rest` that are already done.
  int64_t optimizer_steps(const DataPlan& rest, int64_t epochs, int64_t before = 0) const;
  // Number of distinct samples used in an epoch; the remaining ones are dropped.
  int64_t samples_per_epoch() const { return used_; }
  int64_t repeats_per_epoch() const;
  // Largest batch size of any rank and step.
  int64_t max_batch() const;
  // Largest batch size of any rank in a step, including padding.
  int64_t largest_share(int64_t step) const;

  // Returns the batch of a rank in a step; its size() is 0 if there is none. O(1).
  Slice slice(int64_t rank, int64_t step) const;
  // Returns the number of positions of the epoch consumed before `step`. O(1).
  int64_t consumed(int64_t step) const;
  // Returns the number of samples in `count` steps from `step` on, which may extend into later epochs.
  int64_t samples_ahead(int64_t step, int64_t count) const;
  // As samples_ahead(), for one rank. O(count).
  int64_t samples_ahead_of(int64_t rank, int64_t step, int64_t count) const;
  OptimizerStep optimizer_step(int64_t index) const;

  // Returns warnings about valid but unusual plans: fewer samples than ranks, more accumulation than steps.
  std::vector<std::string> warnings() const;

 private:
  PlanSpec spec_;
  int64_t group_ = 0;
  int64_t used_ = 0;
  int64_t steps_ = 0;
};

// Writes the sample indices of a slice to `ids` (at least slice.size()), using the current epoch of `order`.
void sample_ids(const Slice& slice, const Order& order, std::span<int64_t> ids);

// Returns the document of `runner plan --json` for epochs 0 … epochs − 1. `batches`: whether to include "epochs".
// `row_of`: the number to print for a sample. Leaves `order` at the last epoch.
using RowOf = std::function<int64_t(int64_t sample)>;
std::string plan_json(const DataPlan& plan, Order& order, int64_t epochs, bool batches,
                      const RowOf& row_of = std::identity());

}  // namespace runner::data
