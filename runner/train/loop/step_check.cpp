#include "runner/train/loop/step_check.h"

#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_rank.h"

namespace runner::train {

StepCheck check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks) {
  const schema::Recipe& recipe = session.recipe;
  if (session.data.eval) Evaluator(session.trainer, *session.data.eval, recipe, hooks);
  try {
    return {.memory = estimate_memory(recipe, session.data, session.plan, *session.device, make_hooks(recipe).get()),
            .unknown = {}};
  } catch (const UnknownBeforeRun& error) {
    return {.memory = {}, .unknown = error.reason()};
  }
}

}  // namespace runner::train
