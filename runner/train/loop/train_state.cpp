#include "runner/train/loop/train_state.h"

#include <fmt/format.h>

#include "schema/base/error.h"

namespace runner::train {
namespace {

// Returns the plan with the batches of a checkpoint.
data::DataPlan plan_of(const Checkpoint& from, const Session& session) {
  data::PlanSpec spec = session.plan.spec();
  spec.batch_size = from.global_batch;
  spec.split_batches = true;
  spec.accumulation = from.accumulation;
  return data::DataPlan(spec);
}

// Older checkpoints do not say.
bool says_step_size(const Checkpoint& from) {
  return from.global_batch > 0 && from.accumulation > 0;
}

// Whether optimizer steps have as many samples as in the checkpoint, but are divided into other batches.
bool divides_steps_anew(const Checkpoint& from, const Session& session) {
  return says_step_size(from) && from.global_batch != session.plan.global_batch_size() &&
         plan_of(from, session).full_step_size() == session.plan.full_step_size();
}

[[noreturn]] void refuse_batches(const std::string& reason, const char* way_out = "") {
  fail(ErrorKind::kUsage,
       "the run cannot continue with other batches: {}; keep data.batch_size and gradient_accumulation_steps, {}or use "
       "`runner fork`",
       reason, way_out);
}

// Checks that optimizer steps divided into other batches have the same samples and the same result.
void check_other_batches(const Checkpoint& from, const Session& session) {
  if (from.result.batches > 0)
    refuse_batches(fmt::format("the state was saved within an optimizer step, after {} of its {} batches",
                               from.result.batches, from.accumulation),
                   "choose a state between optimizer steps with --state, ");
  if (from.next_accumulation != from.accumulation) refuse_batches("the hook has set acc.gradient_accumulation_steps");
  if (session.has_custom_loop) refuse_batches("the hook's train may compute anything with a batch");
  const data::DataPlan before = plan_of(from, session), &after = session.plan;
  if (after.has_steps_of(before) && after.from(from.used).has_steps_of(before.from(from.used))) return;
  if (session.recipe.data.drop_last)
    refuse_batches(fmt::format("data.drop_last leaves out other samples with batches of {} than with {}",
                               after.global_batch_size(), before.global_batch_size()));
  refuse_batches(
      fmt::format("with sync_with_dataloader: false, the last batch of an epoch must be full, but {} samples are not a "
                  "multiple of {} and {}",
                  after.samples_per_epoch(), before.global_batch_size(), after.global_batch_size()));
}

// Returns where a session continues from a checkpoint, at the next sample of the same order, and sets the remaining
// length of the run. `warning`: set if optimizer steps have other samples.
data::Position place_of(const Checkpoint& from, Session& session, std::optional<std::string>& warning) {
  data::Position place = from.position;
  const int64_t batch = session.plan.global_batch_size(), accumulation = session.accumulation();
  const bool other_batches = divides_steps_anew(from, session);
  if (other_batches) {
    check_other_batches(from, session);
  } else if (from.accumulation > 0) {
    session.set_accumulation(from.accumulation);
  }
  if (from.global_batch == 0 || from.global_batch == batch) {
    session.set_extra_steps(from.extra_steps);
    if (session.accumulation() != accumulation) session.count_steps_from(place, from.result.batches);
    return place;
  }
  if (!place.begins_epoch()) place = {place.epoch, 0, from.used};
  session.count_steps_from(place, from.result.batches);
  // The rest of the epoch is less than a batch and is dropped.
  if (session.plan_at(place).steps_per_epoch() == 0) place = {place.epoch + 1, 0};
  if (!other_batches)
    warning = fmt::format("the global batch changed from {1} to {0} samples: the run ends with step {2}", batch,
                          from.global_batch, session.length.total_steps);
  return place;
}

}  // namespace

TrainState::TrainState(Session& session_, Hooks* hooks_, const std::atomic<int>& stop)
    : session(session_),
      hooks(hooks_),
      next_accumulation(session_.recipe.gradient_accumulation_steps),
      control(session_, hooks_, stop) {}

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
          .not_finite = skipped_before + skipped,
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

void TrainState::check_step_size(const Checkpoint& from) const {
  if (!says_step_size(from)) refuse_batches("the state was saved by a version that did not record its batches");
  const int64_t was = plan_of(from, session).full_step_size(), is = session.plan.full_step_size();
  if (was != is)
    refuse_batches(fmt::format("optimizer steps have {} samples in the state, but {} in the recipe", was, is));
}

std::optional<std::string> TrainState::restore(const Checkpoint& from, bool resumed) {
  std::optional<std::string> warning;
  is_as_restored = true;
  const bool other_batches = divides_steps_anew(from, session);
  position = place_of(from, session, warning);
  int64_t& batches = session.trainer.counters.batches;
  // An older checkpoint.
  if (batches == 0) batches = position.epoch * session.plan.steps_per_epoch() + position.step;
  result = from.result;
  next_accumulation = from.next_accumulation > 0 && !other_batches ? from.next_accumulation : session.accumulation();
  reached = {step(), from.reached_epoch, session.trainer.counters.samples};
  patience = from.patience;
  skipped_before = from.not_finite;
  if (!session.trainer.stepper().is_local() || session.rank() == 0) session.trainer.metrics = from.metrics;
  const int64_t drawn = hooks != nullptr ? hooks->drawn() : 0;
  continues_hook = hooks != nullptr && !from.hook.empty();
  if (continues_hook) hooks->restore(from.hook);
  if (other_batches && session.has_training_step && hooks->drawn() != drawn)
    refuse_batches("the hook draws random numbers in training, and how many depends on the batches");
  if (const auto& spec = session.recipe.train.early_stopping; resumed && spec)
    stopped_early = patience.evaluations >= spec->patience;
  return warning;
}

void TrainState::restore_values(const Checkpoint& from) {
  weights_agree = true;
  session.trainer.arrays().set_logged_sums({});
  session.schedule.restore(from.plateau);
  if (!from.hook.empty()) hooks->restore(from.hook);
}

void TrainState::adopt_accumulation() {
  if (next_accumulation == session.accumulation() || !weights_agree) return;
  session.set_accumulation(next_accumulation);
  session.count_steps_from(position, 0);
}

}  // namespace runner::train
