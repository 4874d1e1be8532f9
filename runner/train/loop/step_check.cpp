#include "runner/train/loop/step_check.h"

#include "runner/train/loop/evaluator.h"

namespace runner::train {

std::optional<MemoryEstimate> check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks) {
  const schema::Recipe& recipe = session.recipe;
  if (session.data.eval) Evaluator(session.trainer, *session.data.eval, recipe, hooks);
  if (has(hooks, HookEntry::kTrain)) return std::nullopt;
  return estimate_memory(recipe, session.data, session.plan, *session.device, make_hooks(recipe).get());
}

}  // namespace runner::train
