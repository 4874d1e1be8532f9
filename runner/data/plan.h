// The data plan: which positions of an epoch's order each replica reads in each step, as a pure function.
//
// One rule covers every combination of the flags.  Step k takes the next G positions (G = batch_size, times P unless
// split_batches), and replica r the share [r*G/P, (r+1)*G/P) of them, rounded down.  The flags concern the last step
// when fewer than G positions are left: drop_last leaves them out; even_batches completes every share with repeats from
// the start of the epoch's order, read cyclically; otherwise shares are cut short, and a replica whose share is empty
// has no batch.  dispatch_batches divides the last step evenly instead: when P does not divide its size, one more
// sample each, the missing ones being repeats of the epoch's first P.  P = 1 never repeats.  (reference: Accelerate's
// BatchSamplerShard and DataLoaderDispatcher; a batch_size that P does not divide, which they refuse, gives uneven
// shares.)
//
// Repeats always stand at the end of a batch and are masked: they never count in a loss, a gradient or a metric.
// Values only; safe to share between threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schema/recipe.h"

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
  int64_t accumulation = 1;  // micro-batches per optimizer window
  bool windows_end_with_epoch = true;
  int64_t start = 0;  // positions of the epoch that are done already (resuming with another P)
};

// The plan of training (`samples` of data.train) and of evaluation (batch size of eval or data, nothing dropped or
// repeated).
PlanSpec train_plan(const schema::Recipe& recipe, int64_t samples);
PlanSpec eval_plan(const schema::Recipe& recipe, int64_t samples);

// One replica's batch: positions [begin, begin + real) of the order, then `repeats` repeated ones, the j-th being
// position (repeat_from + j) mod pool.
struct Slice {
  int64_t begin = 0;
  int64_t real = 0;
  int64_t repeats = 0;
  int64_t repeat_from = 0;
  int64_t pool = 1;

  int64_t size() const { return real + repeats; }
  int64_t position(int64_t i) const { return i < real ? begin + i : (repeat_from + i - real) % pool; }
};

// An optimizer window: steps [first_step, first_step + steps), `samples` without repeats over all replicas.  Where
// windows go on over the end of an epoch, steps are counted on from epoch 0.
struct Window {
  int64_t first_step = 0;
  int64_t steps = 0;
  int64_t samples = 0;
};

class DataPlan {
 public:
  // Throws Error(kRecipe) when an epoch would hold no batch.
  explicit DataPlan(const PlanSpec& spec);

  // The same for what an epoch has left behind its first `start` positions; it may hold no batch.
  DataPlan from(int64_t start) const;

  const PlanSpec& spec() const { return spec_; }
  int64_t global_batch_size() const { return group_; }
  int64_t steps_per_epoch() const { return steps_; }
  // Windows of `epochs` epochs in a row; where windows do not end with them, without the batches that fill none.
  int64_t optimizer_steps(int64_t epochs) const;
  // The same where the first of them is what `rest` has left of it, and the window under way has had `before` batches
  // before that; negative: so many batches of `rest` are done.
  int64_t optimizer_steps(const DataPlan& rest, int64_t epochs, int64_t before = 0) const;
  // Samples that an epoch uses, each once; the rest is dropped.
  int64_t samples_per_epoch() const { return used_; }
  int64_t repeats_per_epoch() const;
  // The largest batch of any replica and step.
  int64_t max_batch() const;
  // Of a step: the most samples that a replica has in it, with repeats.
  int64_t largest_share(int64_t step) const;

  // Replica's batch of a step; size() is 0 when it has none.  O(1).
  Slice slice(int64_t replica, int64_t step) const;
  // Positions of the epoch that steps before `step` use; window and resume arithmetic.  O(1).
  int64_t consumed(int64_t step) const;
  // Samples of the `count` steps from `step` on, into later epochs if there are not as many left.
  int64_t samples_ahead(int64_t step, int64_t count) const;
  // Those of them that are one replica's.  O(count).
  int64_t samples_ahead_of(int64_t replica, int64_t step, int64_t count) const;
  Window window(int64_t index) const;

  // What runs but deserves a word: fewer samples than replicas, more accumulation than steps.
  std::vector<std::string> warnings() const;

 private:
  PlanSpec spec_;
  int64_t group_ = 0;  // G
  int64_t used_ = 0;
  int64_t steps_ = 0;
};

// Sample indices of a slice under the current epoch of `order`, written to `ids` (at least slice.size()).
void sample_ids(const Slice& slice, const Order& order, std::span<int64_t> ids);

// The document of `runner plan --json`, for epochs 0 … epochs − 1; without `batches` its "epochs" is left out.  `order`
// is left at the last epoch.
std::string plan_json(const DataPlan& plan, Order& order, int64_t epochs, bool batches);
// The same for people: sizes, steps, windows, repeats.
std::string plan_text(const DataPlan& plan);

}  // namespace runner::data
