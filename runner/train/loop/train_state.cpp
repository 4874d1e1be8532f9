#include "runner/train/loop/train_state.h"

#include <fmt/format.h>

namespace runner::train {
namespace {

// Returns where a session continues from a checkpoint, at the next sample of the same order, and sets the remaining
// length of the run. `warning`: set if the global batch size has changed.
data::Position place_of(const Checkpoint& from, Session& session, std::optional<std::string>& warning) {
  data::Position place = from.position;
  const int64_t batch = session.plan.global_batch_size(), accumulation = session.accumulation();
  if (from.accumulation > 0) session.set_accumulation(from.accumulation);
  if (from.global_batch == 0 || from.global_batch == batch) {
    session.set_extra_steps(from.extra_steps);
    if (session.accumulation() != accumulation) session.count_steps_from(place, from.result.batches);
    return place;
  }
  if (!place.begins_epoch()) place = {place.epoch, 0, from.used};
  session.count_steps_from(place, from.result.batches);
  // The rest of the epoch is less than a batch and is dropped.
  if (session.plan_at(place).steps_per_epoch() == 0) place = {place.epoch + 1, 0};
  warning = fmt::format("the global batch changed from {1} to {0} samples: the run ends with step {2}", batch,
                        from.global_batch, session.length.total_steps);
  return place;
}

}  // namespace

TrainState::TrainState(Session& session_, Hooks* hooks_)
    : session(session_), hooks(hooks_), next_accumulation(session_.recipe.gradient_accumulation_steps) {}

void TrainState::set_position(const data::Position& next) {
  position = next;
  result = {};
}

Checkpoint TrainState::checkpoint() {
  Trainer& trainer = session.trainer;
  trainer.stepper().read_counters();
  return {.position = position,
          .result = result,
          .reached_epoch = reached.epochs,
          .pending = std::nullopt,
          .accumulation = session.accumulation(),
          .next_accumulation = next_accumulation,
          .used = session.used_before(position),
          .global_batch = session.plan.global_batch_size(),
          .extra_steps = session.extra_steps(),
          .max_micro_batch = trainer.accumulation.max_micro_batch,
          .counters = trainer.counters,
          .plateau = session.schedule.plateau(),
          .patience = patience,
          .metrics = trainer.metrics,
          .hook = hooks != nullptr ? hooks->state() : "",
          .encoding = session.data.encoding,
          .train_data = session.train_fingerprint(),
          .eval_data = session.eval_fingerprint()};
}

Checkpoint TrainState::checkpoint_of(const StepStart& start) {
  if (hooks != nullptr && !start.hook.kept) hooks->set_drawn(start.hook.drawn);
  session.trainer.arrays().hold(GradientState::kNothing);
  Checkpoint checkpoint = this->checkpoint();
  if (start.hook.kept) checkpoint.hook = *start.hook.kept;
  return checkpoint;
}

std::optional<std::string> TrainState::restore(const Checkpoint& from, bool resumed) {
  std::optional<std::string> warning;
  position = place_of(from, session, warning);
  int64_t& batches = session.trainer.counters.batches;
  // An older checkpoint.
  if (batches == 0) batches = position.epoch * session.plan.steps_per_epoch() + position.step;
  result = from.result;
  next_accumulation = from.next_accumulation > 0 ? from.next_accumulation : session.accumulation();
  reached = {step(), from.reached_epoch, session.trainer.counters.samples};
  patience = from.patience;
  if (!session.trainer.stepper().is_local() || session.rank() == 0) session.trainer.metrics = from.metrics;
  continues_hook = hooks != nullptr && !from.hook.empty();
  if (continues_hook) hooks->restore(from.hook);
  if (const auto& spec = session.recipe.train.early_stopping; resumed && spec)
    control.stopped_early = patience.evaluations >= spec->patience;
  return warning;
}

void TrainState::restore_values(const Checkpoint& from) {
  weights_agree = true;
  session.trainer.arrays().forget_logged_sums();
  session.schedule.restore(from.plateau);
  if (!from.hook.empty()) hooks->restore(from.hook);
}

void TrainState::adopt_accumulation() {
  if (next_accumulation == session.accumulation() || !weights_agree) return;
  session.set_accumulation(next_accumulation);
  session.count_steps_from(position, 0);
}

}  // namespace runner::train
