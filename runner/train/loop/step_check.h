// Finds the errors of a recipe's model and hooks that a run would meet in its first steps.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include "runner/train/loop/hooks.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/step_estimate.h"

namespace runner::train {

struct StepCheck {
  std::optional<StepEstimate> estimate;
  std::string unknown;          // why the steps are known only in a run, if there is no estimate
  std::exception_ptr shortage;  // what a run would throw because the device, the process or the machine has too little
                                // memory; null if it suffices
};

// Transforms the first batch, if the hook has a transform. Compiles the steps of training and evaluation without
// allocating memory for them; they compute nothing. The steps of some hooks are known only in a run. `hooks`: those of
// the session, or null. `make_hooks` makes others, because a hook creates a model only once. Throws like a run, except
// for too little memory.
StepCheck check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks);

}  // namespace runner::train
