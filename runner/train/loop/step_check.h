// Finds the errors of a recipe's model and hooks that a run would meet in its first steps.
#pragma once

#include <optional>

#include "runner/train/loop/hooks.h"
#include "runner/train/loop/memory_estimate.h"
#include "runner/train/loop/session.h"

namespace runner::train {

// Compiles the steps of training and evaluation without allocating memory for them, and nothing is computed. The steps
// of a hook's own training loop are known only in a run. `hooks`: those of the session, or null. `make_hooks` makes
// others, because a hook creates a model only once. Returns the memory that the steps need; none for a hook's own loop.
// Throws like a run, OutOfMemory if the device has too little memory.
std::optional<MemoryEstimate> check_steps(Session& session, Hooks* hooks, const MakeHooks& make_hooks);

}  // namespace runner::train
