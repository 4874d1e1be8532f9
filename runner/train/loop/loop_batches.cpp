#include "runner/train/loop/loop_batches.h"

#include <atomic>
#include <utility>

#include "backends/tensor/rounding.h"
#include "runner/train/loop/evaluator.h"
#include "schema/base/error.h"

namespace runner::train {

// ---- epochs --------------------------------------------------------------------------------------------------------

LoopBatches::Epochs LoopBatches::begin_epochs(std::optional<int64_t> count) {
  RUN_CHECK(!epochs_.in_progress, ErrorKind::kRun,
            "acc:epochs: another loop over epochs has not ended; finish it or leave it with break");
  const int64_t first = epochs_.before;
  if (count) check_count(first, *count);
  const int64_t end = count ? first + *count : session_.recipe.train.epochs.value_or(kUntilLastStep);
  epochs_ = {.before = end, .in_progress = true, .given = {}};
  return {first, end};
}

// With train.steps, the number of epochs follows from the steps only while the run has one batch size and accumulation.
void LoopBatches::check_count(int64_t first, int64_t count) const {
  const auto [steps, of_epochs] = session_.length.steps_per_epoch;
  const auto& epochs = session_.recipe.train.epochs;
  RUN_CHECK(first < kUntilLastStep, ErrorKind::kRun,
            "acc:epochs: an earlier loop over acc:epochs() has taken all epochs of the run");
  if (!epochs && state_.step() > 0) return;
  const int64_t all = epochs ? *epochs : backends::ceil_div(session_.length.total_steps * of_epochs, steps);
  RUN_CHECK(first + count <= all, ErrorKind::kRun,
            "acc:epochs: {} epochs after {} exceed the {} epochs of the recipe; increase train.{}", count, first, all,
            epochs ? "epochs" : "steps");
}

std::optional<int64_t> LoopBatches::next_epoch(const Epochs& epochs, const data::Position& next) {
  epochs_.in_progress = !state_.finished() && next.epoch < epochs.end;
  epochs_.given = epochs_.in_progress ? std::optional(next.epoch) : std::nullopt;
  return epochs_.given;
}

void LoopBatches::end_epochs() {
  epochs_.in_progress = false;
  epochs_.given.reset();
}

// ---- training batches ----------------------------------------------------------------------------------------------

void LoopBatches::check_epoch(const data::Position& next) const {
  RUN_CHECK(!epochs_.given || *epochs_.given == next.epoch, ErrorKind::kRun,
            "acc:batches: this epoch has no more batches; start the next epoch");
}

void LoopBatches::load_training(const data::Position& next) {
  if (train_.loader && train_.even_batches == even_batches_) return;
  train_.loader.reset();
  data::LoaderSpec spec = loop_.loader_spec();
  spec.from = next;
  train_.loader.emplace(session_.data.train, with_even_batches(session_.plan), spec);
  train_.even_batches = even_batches_;
  loop_.wait_for_first_batch(*train_.loader);
}

void LoopBatches::take(Batches& batches) {
  static std::atomic<int64_t> taken = 0;
  batches.batch = &batches.loader->next();
  batches.number = ++taken;
}

// ---- evaluation batches --------------------------------------------------------------------------------------------

void LoopBatches::begin_evaluation() {
  end_evaluation();
  const data::DataPlan plan =
      with_even_batches(evaluation_plan(session_.recipe, session_.data.eval->size(), session_.ranks));
  eval_.loader.emplace(*session_.data.eval, plan, evaluation_loader(session_.rank(), /*never_empty=*/true));
  eval_.left = plan.steps_per_epoch();
}

bool LoopBatches::take_evaluation() {
  if (!eval_.loader || eval_.left == 0) return false;
  --eval_.left;
  take(eval_);
  return true;
}

void LoopBatches::end_evaluation() {
  eval_.batch = nullptr;
  eval_.loader.reset();
}

// ---- even batches --------------------------------------------------------------------------------------------------

std::optional<bool> LoopBatches::set_even_batches(std::optional<bool> even) {
  if (even && session_.ranks != nullptr && session_.recipe.data.dispatch_batches &&
      !std::exchange(warned_of_even_batches_, true))
    loop_.warn(
        "acc:join: even_batches has no effect on dispatched training batches (data.dispatch_batches, implied by "
        "data.stream), whose last step is divided evenly");
  return std::exchange(even_batches_, even);
}

data::DataPlan LoopBatches::with_even_batches(const data::DataPlan& plan) const {
  data::PlanSpec spec = plan.spec();
  spec.even_batches = even_batches_.value_or(spec.even_batches);
  return data::DataPlan(spec);
}

}  // namespace runner::train
