#include "runner/data/plan.h"

#include <algorithm>
#include <limits>

#include "backends/tensor/rounding.h"
#include "runner/data/order.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

using backends::ceil_div;

[[noreturn]] void no_batch(const PlanSpec& spec, int64_t group) {
  if (spec.samples == 0) fail(ErrorKind::kRecipe, "an epoch has no batches: the data set is empty");
  fail(
      ErrorKind::kRecipe,
      "an epoch has no batches: the data set has {2} samples, fewer than a global batch of {3}, and drop_last is true; "
      "lower {0}{1}.batch_size, or set {1}.drop_last to false",
      spec.processes > 1 && !spec.split_batches ? "num_processes or " : "", spec.section, spec.samples, group);
}

}  // namespace

PlanSpec train_plan(const schema::Recipe& recipe, int64_t samples) {
  return {.samples = samples,
          .batch_size = recipe.data.batch_size,
          .processes = recipe.num_processes,
          .split_batches = recipe.split_batches,
          .drop_last = recipe.data.drop_last,
          .even_batches = recipe.data.even_batches,
          .dispatch_batches = recipe.data.dispatch_batches,
          .accumulation = recipe.gradient_accumulation_steps,
          .steps_end_with_epoch = recipe.sync_with_dataloader};
}

PlanSpec eval_plan(const schema::Recipe& recipe, int64_t samples) {
  return {.samples = samples,
          .batch_size = recipe.eval.batch_size.value_or(recipe.data.batch_size),
          .processes = recipe.num_processes,
          .split_batches = recipe.split_batches,
          .drop_last = recipe.eval.drop_last,
          .even_batches = false,
          .section = "eval"};
}

DataPlan::DataPlan(const PlanSpec& spec) : spec_(spec) {
  RUN_ASSERT(spec.batch_size >= 1 && spec.processes >= 1 && spec.accumulation >= 1);
  RUN_ASSERT(spec.start >= 0 && spec.start <= spec.samples);
  group_ = spec.split_batches ? spec.batch_size : spec.batch_size * spec.processes;
  const int64_t left = spec.samples - spec.start;
  used_ = spec.drop_last ? left / group_ * group_ : left;
  steps_ = ceil_div(used_, group_);
  if (steps_ == 0 && spec.start == 0) no_batch(spec, group_);
}

DataPlan DataPlan::from(int64_t start) const {
  PlanSpec spec = spec_;
  spec.start = start;
  return DataPlan(spec);
}

DataPlan DataPlan::with_even_batches(std::optional<bool> even) const {
  PlanSpec spec = spec_;
  spec.even_batches = even.value_or(spec.even_batches);
  return DataPlan(spec);
}

int64_t DataPlan::full_step_size() const {
  int64_t size = 0;
  const bool overflows = __builtin_mul_overflow(group_, spec_.accumulation, &size);
  return overflows ? std::numeric_limits<int64_t>::max() : size;  // more than any epoch has
}

// An optimizer step that continues in the next epoch has a fixed number of batches, so none of them may be short.
bool DataPlan::has_steps_of(const DataPlan& other) const {
  const bool all_full = used_ % group_ == 0 && used_ % other.group_ == 0;
  return full_step_size() == other.full_step_size() && used_ == other.used_ &&
         (group_ == other.group_ || spec_.steps_end_with_epoch || all_full);
}

int64_t DataPlan::optimizer_steps(int64_t epochs) const {
  return optimizer_steps(*this, epochs);
}

int64_t DataPlan::optimizer_steps(const DataPlan& rest, int64_t epochs, int64_t before) const {
  if (epochs <= 0) return 0;
  if (!spec_.steps_end_with_epoch) return (before + rest.steps_ + (epochs - 1) * steps_) / spec_.accumulation;
  if (rest.steps_ == 0) return epochs > 1 ? optimizer_steps(*this, epochs - 1, before) : 0;
  return ceil_div(before + rest.steps_, spec_.accumulation) + (epochs - 1) * ceil_div(steps_, spec_.accumulation);
}

int64_t DataPlan::repeats_per_epoch() const {
  int64_t repeats = 0;  // only the last step has any
  for (int64_t r = 0; r < spec_.processes && steps_ > 0; ++r) repeats += slice(r, steps_ - 1).repeats;
  return repeats;
}

// All full steps are equal. The shares of the last one may be larger with dispatch_batches.
int64_t DataPlan::max_batch() const {
  return steps_ > 0 ? std::max(largest_share(0), largest_share(steps_ - 1)) : 0;
}

int64_t DataPlan::largest_share(int64_t step) const {
  if (step + 1 < steps_) return ceil_div(group_, spec_.processes);
  int64_t largest = 0;
  for (int64_t r = 0; r < spec_.processes; ++r) largest = std::max(largest, slice(r, step).size());
  return largest;
}

Slice DataPlan::slice(int64_t rank, int64_t step) const {
  const int64_t P = spec_.processes;
  const int64_t size = consumed(step + 1) - consumed(step);  // samples in the step: G, except in the last step
  const bool last = step + 1 == steps_;

  // The rank's share [low, high) of the step's positions; positions from `size` on do not exist. Padding replaces them
  // by positions 0 … supply − 1 of the epoch, taken modulo `pool`.
  int64_t low = rank * group_ / P, high = (rank + 1) * group_ / P;
  int64_t pool = std::min(group_, spec_.samples);
  const bool pads = (spec_.even_batches && P > 1) || (spec_.pad_last && steps_ > 1);
  int64_t supply = pads ? group_ : 0;
  if (spec_.dispatch_batches && last) {
    const bool uneven = size % P != 0 && !spec_.drop_last;
    low = uneven ? rank * (size / P + 1) : rank * size / P;
    high = uneven ? low + size / P + 1 : (rank + 1) * size / P;
    pool = supply = std::min(P, pool);
  }
  const int64_t real = std::clamp(size - low, int64_t{0}, high - low);
  const int64_t repeat_from = std::max(low - size, int64_t{0});
  return {.begin = spec_.start + step * group_ + low,
          .real = real,
          .repeats = std::clamp(supply - repeat_from, int64_t{0}, high - low - real),
          .repeat_from = repeat_from,
          .pool = pool};
}

int64_t DataPlan::consumed(int64_t step) const {
  return std::min(step * group_, used_);
}

int64_t DataPlan::samples_ahead(int64_t step, int64_t count) const {
  const int64_t here = std::min(count, steps_ - step), later = count - here;
  const int64_t samples = consumed(step + here) - consumed(step);
  if (later == 0) return samples;
  const DataPlan whole = from(0);
  return samples + later / whole.steps_ * whole.used_ + whole.consumed(later % whole.steps_);
}

int64_t DataPlan::samples_ahead_of(int64_t rank, int64_t step, int64_t count) const {
  const DataPlan whole = from(0);
  int64_t samples = 0;
  for (; count > 0; --count, ++step)
    samples += step < steps_ ? slice(rank, step).real : whole.slice(rank, (step - steps_) % whole.steps_).real;
  return samples;
}

OptimizerStep DataPlan::optimizer_step(int64_t index) const {
  const int64_t first = index * spec_.accumulation;
  if (!spec_.steps_end_with_epoch)
    return {
        .first_step = first, .steps = spec_.accumulation, .samples = samples_ahead(first % steps_, spec_.accumulation)};
  const int64_t end = std::min(first + spec_.accumulation, steps_);
  return {.first_step = first, .steps = end - first, .samples = consumed(end) - consumed(first)};
}

double DataPlan::optimizer_steps_per_epoch() const {
  if (spec_.steps_end_with_epoch) return static_cast<double>(optimizer_steps(1));
  return static_cast<double>(steps_) / static_cast<double>(spec_.accumulation);
}

std::vector<std::string> DataPlan::warnings() const {
  std::vector<std::string> warnings;
  if (used_ < spec_.processes) {
    warnings.push_back(fmt::format("an epoch has {} for {} processes: some processes get only repeated samples",
                                   count_text(used_, "sample"), spec_.processes));
  }
  if (spec_.accumulation > steps_ && spec_.steps_end_with_epoch) {
    warnings.push_back(
        fmt::format("gradient_accumulation_steps {} exceeds the {} of an epoch: each epoch is one optimizer step",
                    spec_.accumulation, count_text(steps_, "batch")));
  }
  return warnings;
}

void sample_ids(const Slice& slice, const Order& order, std::span<int64_t> ids) {
  for (int64_t i = 0; i < slice.size(); ++i) ids[static_cast<size_t>(i)] = order[slice.position(i)];
}

}  // namespace runner::data
