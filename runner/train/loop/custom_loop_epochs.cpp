// The loops over epochs of a hook's training loop.
#include <algorithm>

#include "backends/tensor/rounding.h"
#include "runner/train/loop/custom_loop.h"
#include "schema/base/error.h"

namespace runner::train {

CustomLoop::Epochs CustomLoop::begin_epochs(std::optional<int64_t> count) {
  end_left_batch();
  RUN_CHECK(!epochs_.in_progress, ErrorKind::kRun,
            "acc:epochs: another loop over epochs has not ended; finish it or leave it with break");
  const int64_t first = epochs_.before;
  const int64_t all = epochs_of_run();
  RUN_CHECK(!count || first + *count <= all, ErrorKind::kRun,
            "acc:epochs: {} epochs after {} exceed the {} epochs of the recipe; increase train.{}", *count, first, all,
            session_.recipe.train.steps ? "steps" : "epochs");
  const int64_t end = count ? first + *count : all;
  epochs_.before = end;
  epochs_.in_progress = true;
  epochs_.given.reset();
  // Epochs that earlier loops left early are skipped for good. The checkpoint of their last optimizer step agrees.
  if (position().epoch < first && first < end && !state_.finished()) {
    end_region();
    skip_to(first);
    begin_region();
  }
  return {first, end};
}

// If the length of the run is given in steps: as many epochs as they may take with the current accumulation.
int64_t CustomLoop::epochs_of_run() const {
  if (const auto& epochs = session_.recipe.train.epochs) return *epochs;
  const auto [steps, of_epochs] = session_.length.steps_per_epoch;
  const int64_t all = backends::ceil_div(session_.length.total_steps * of_epochs, steps);
  if (session_.accumulation() == session_.recipe.gradient_accumulation_steps) return all;
  const int64_t left = (session_.length.total_steps - state_.step()) * session_.accumulation();
  return std::max(all, position().epoch + 2 + left / session_.plan.steps_per_epoch());
}

void CustomLoop::end_epochs() {
  epochs_.in_progress = false;
  epochs_.given.reset();
}

std::optional<int64_t> CustomLoop::next_epoch(const Epochs& epochs) {
  end_left_batch();
  end_region();
  leave_epoch();
  stop_where_interrupted();
  if (open_step_.result.batches == 0) loop_.close_step();
  const int64_t epoch = position().epoch;
  const bool over = state_.finished() || epoch >= epochs.end;
  epochs_.in_progress = !over;
  epochs_.given = over ? std::nullopt : std::optional(epoch);
  begin_region();
  return epochs_.given;
}

// Position of the next batch.
data::Position CustomLoop::position() const {
  return open_step_.result.batches > 0 ? open_step_.result.next : state_.position;
}

// An epoch that the hook has left early is skipped for good. Checkpoints agree.
void CustomLoop::leave_epoch() {
  const int64_t epoch = position().epoch;
  if (epochs_.given == epoch && !state_.finished()) skip_to(epoch + 1);
}

void CustomLoop::skip_to(int64_t epoch) {
  state_.set_position({epoch, 0});
  train_.loader.reset();
  drop_step();
}

// If a loop over batches was left with break, its batch ends when the next call does not belong to it.
void CustomLoop::end_left_batch() {
  if (train_.batch == nullptr) return;
  end_batch();
  begin_region();
}

// Batches of an optimizer step that the hook has not finished do not count.
void CustomLoop::drop_step() {
  if (open_step_.result.batches > 0) {
    trainer_.arrays().set_gradients(std::vector<GradientState>(trainer_.arrays().gradients().size()));
    reached_ = held_parameters();
  }
  open_step_ = {};
}

}  // namespace runner::train
