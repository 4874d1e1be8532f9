// Hook files: Lua code that replaces or extends parts of the training.
#pragma once

#include <memory>
#include <vector>

#include "runner/train/loop/hooks.h"

namespace runner::lua {

// Loads the file named by `hooks` in the recipe; returns null if there is none. `recorded`: recorded texts used instead
// of this file and the files that it requires. `silent`: suppresses output printed outside a run. Throws Error(kRecipe)
// with the line if the file cannot be read, is not valid Lua, fails, or does not return a table of known entries.
std::unique_ptr<train::Hooks> load_hooks(const schema::Recipe& recipe,
                                         const std::vector<train::HookSource>& recorded = {}, bool silent = false);

// Returns a function for train::run() that calls load_hooks().
train::MakeHooks hooks_maker(std::vector<train::HookSource> recorded = {}, bool silent = false);

}  // namespace runner::lua
