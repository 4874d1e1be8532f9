#include "runner/train/loop/train_batches.h"

#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::train {

// ---- epochs --------------------------------------------------------------------------------------------------------

TrainBatches::Epochs TrainBatches::begin_epochs(std::optional<int64_t> count) {
  RUN_CHECK(!epochs_.in_progress, ErrorKind::kRun,
            "acc:epochs: another loop over epochs has not ended; finish it or leave it with break");
  const int64_t first = epochs_.before;
  if (count) check_count(first, *count);
  const int64_t end = count ? first + *count : session_.recipe.train.epochs.value_or(kUntilLastStep);
  epochs_ = {.before = end, .in_progress = true, .given = {}};
  return {first, end};
}

// With train.steps, the number of epochs follows from the steps only while the run has one batch size and accumulation.
void TrainBatches::check_count(int64_t first, int64_t count) const {
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

std::optional<int64_t> TrainBatches::next_epoch(const Epochs& epochs, const data::Position& next) {
  epochs_.in_progress = !state_.finished() && next.epoch < epochs.end;
  epochs_.given = epochs_.in_progress ? std::optional(next.epoch) : std::nullopt;
  return epochs_.given;
}

void TrainBatches::end_epochs() {
  epochs_.in_progress = false;
  epochs_.given.reset();
}

// ---- batches -------------------------------------------------------------------------------------------------------

void TrainBatches::check_epoch(const data::Position& next) const {
  RUN_CHECK(!epochs_.given || *epochs_.given == next.epoch, ErrorKind::kRun,
            "acc:batches: this epoch has no more batches; start the next epoch");
}

void TrainBatches::load(const data::Position& next, std::optional<bool> even) {
  if (loader_ && even_batches_ == even) return;
  loader_.reset();
  data::LoaderSpec spec = loop_.loader_spec();
  spec.from = next;
  loader_.emplace(session_.data.train, session_.plan.with_even_batches(even), spec);
  even_batches_ = even;
  is_new_ = true;
}

}  // namespace runner::train
