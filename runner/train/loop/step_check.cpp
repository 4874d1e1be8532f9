#include "runner/train/loop/step_check.h"

#include "runner/data/loader.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/generation.h"
#include "runner/train/loop/run_stand_in.h"
#include "runner/train/loop/trial_rank.h"

namespace runner::train {

namespace {

// Whether the device models memory of its own.
bool has_device_memory(const Session& session) {
  return session.device->has_own_memory() || session.device->traces_graphs();
}

// Transforms the first samples of the data. What the transform prints is discarded.
void try_transform(const Session& session, Hooks& hooks) {
  const RunStandIn run(&hooks, {.steps = session.length.total_steps});
  data::Loader(session.data.train, session.plan, {.shuffle = false, .prefetch = 0, .transform = hooks.transform()})
      .next();
}

// Throws like a run if the process or the machine has too little memory for the arrays and the first step. The memory
// of a device model is checked by estimate_steps().
void check_host_memory(TrialRank& trial, const Session& session) {
  Trainer& trainer = trial.trainer();
  trainer.check_memory();
  if (has_device_memory(session) || session.recipe.train.auto_batch_size) return;
  trial.compile([&] {
    trainer.step_memory().prepare(
        {.batch = session.plan.slice(0, 0).size(), .last = session.plan.optimizer_step(0).steps == 1});
  });
}

// What check_host_memory() throws. Errors of the model are thrown again by estimate_steps().
std::exception_ptr host_shortage(TrialRank& trial, const Session& session) {
  try {
    check_host_memory(trial, session);
    return nullptr;
  } catch (const UnknownBeforeRun&) {
    return nullptr;
  } catch (const Error&) {
    return std::current_exception();
  }
}

}  // namespace

StepCheck check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks) {
  const schema::Recipe& recipe = session.recipe;
  if (has(hooks, HookEntry::kTransform)) try_transform(session, *hooks);
  if (session.data.eval)
    about_key("eval.metrics", [&] { Evaluator(session.trainer, *session.data.eval, recipe, hooks); });
  if (recipe.generate) checked_codec(*recipe.generate, session.trainer.builder());
  const std::unique_ptr<Hooks> trial_hooks = make_hooks(recipe);
  TrialRank trial(recipe, session.length.total_steps, session.data.encoding, *session.device, trial_hooks.get());
  StepCheck check;
  // A run finds too little memory of the host before that of a device, which has memory of its own.
  if (!has_device_memory(session)) check.shortage = host_shortage(trial, session);
  try {
    check.estimate = estimate_steps(trial, recipe, session.data, session.plan, *session.device, trial_hooks.get());
    trial.compile([&] { trial.trainer().step_memory().check_batches(session.plan); });
  } catch (const UnknownBeforeRun& error) {
    check.unknown = error.reason();
  } catch (const backends::OutOfMemory&) {
    if (check.shortage == nullptr) check.shortage = std::current_exception();
  }
  if (check.shortage == nullptr && has_device_memory(session)) check.shortage = host_shortage(trial, session);
  return check;
}

}  // namespace runner::train
