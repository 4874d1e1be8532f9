// A hook file: Lua code that puts functions of its own in place of parts of a training.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runner/train/step/hooks.h"

namespace runner::lua {

// Runs the file that the recipe names as `hooks`; null where it names none.  `recorded`: texts that stand for it and
// for files that it requires.  Throws Error(kRecipe) with the line: the file cannot be read, is not Lua, fails, or does
// not return a table with the known entries.  `silent`: what it prints outside a run is not shown.
std::unique_ptr<train::Hooks> load_hooks(const schema::Recipe& recipe,
                                         const std::vector<train::HookSource>& recorded = {}, bool silent = false);

// Such a maker for train::run().
train::MakeHooks hooks_maker(std::vector<train::HookSource> recorded = {}, bool silent = false);

}  // namespace runner::lua
