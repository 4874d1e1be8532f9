// Checks the results of a hook's steps and converts them for the trainer.
#pragma once

#include "runner/train/loop/hooks.h"

struct lua_State;

namespace runner::lua {

// Sums x (B, …) over all axes but the first; returns (B).
train::Value by_sample(train::Value x);

// Each pops the result of training_step or evaluation_step from the top of the stack. Throws Error(kRun) for a wrong
// type or shape, or a table without a required entry.
train::StepLosses take_losses(lua_State* state, const train::StepInputs& inputs);
train::StepPredictions take_predictions(lua_State* state, const train::StepInputs& inputs);

}  // namespace runner::lua
