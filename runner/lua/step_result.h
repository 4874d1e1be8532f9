// What the steps of a hook return, checked and made into what the trainer works with.
#pragma once

#include "runner/train/step/hooks.h"

struct lua_State;

namespace runner::lua {

// Σ over all axes but the first of x (B, …): (B).
train::Value by_sample(train::Value x);

// Each takes the value at the top of the stack, what training_step or evaluation_step returned, and pops it.  Throws
// Error(kRun) for another type, another shape, or a table without what has to be in it.
train::StepLosses take_losses(lua_State* state, const train::StepInputs& inputs);
train::StepPredictions take_predictions(lua_State* state, const train::StepInputs& inputs);

}  // namespace runner::lua
