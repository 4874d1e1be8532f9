#include "runner/train/loop/step_check.h"

#include "runner/data/loader.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/run_stand_in.h"
#include "runner/train/loop/trial_rank.h"

namespace runner::train {

namespace {

// Transforms the first samples of the data. What the transform prints is discarded.
void try_transform(const Session& session, Hooks& hooks) {
  const RunStandIn run(&hooks, {.steps = session.length.total_steps});
  data::Loader(session.data.train, session.plan, {.shuffle = false, .prefetch = 0, .transform = hooks.transform()})
      .next();
}

}  // namespace

StepCheck check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks) {
  const schema::Recipe& recipe = session.recipe;
  if (has(hooks, HookEntry::kTransform)) try_transform(session, *hooks);
  if (session.data.eval) Evaluator(session.trainer, *session.data.eval, recipe, hooks);
  try {
    return {.estimate = estimate_steps(recipe, session.data, session.plan, *session.device, make_hooks(recipe).get()),
            .unknown = {}};
  } catch (const UnknownBeforeRun& error) {
    return {.estimate = {}, .unknown = error.reason()};
  }
}

}  // namespace runner::train
