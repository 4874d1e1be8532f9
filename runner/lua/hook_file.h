// Hook files: Lua code that replaces or extends parts of the training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/train/loop/hooks.h"

namespace runner::backends::tpu {
struct MetricsSnapshot;
}

namespace runner::lua {

// Formats the metrics of an emulated TPU as PyTorch/XLA does, for acc:metrics_report().
using MetricsReport = std::string (*)(const backends::tpu::MetricsSnapshot& metrics, const schema::Recipe& recipe);

// Loads the file named by `hooks` in the recipe; returns null if there is none. `recorded`: recorded texts used instead
// of this file and the files that it requires. `print`: for texts that the hook prints outside of a run. `report`: null
// if there is none. Throws Error(kRecipe) with the line if the file cannot be read, is not valid Lua, fails, or does
// not return a table of known entries.
std::unique_ptr<train::Hooks> load_hooks(const schema::Recipe& recipe,
                                         const std::vector<train::HookSource>& recorded = {},
                                         train::Print print = nullptr, MetricsReport report = nullptr);

// Returns a function for train::run() that calls load_hooks().
train::MakeHooks hooks_maker(std::vector<train::HookSource> recorded = {}, train::Print print = nullptr,
                             MetricsReport report = nullptr);

}  // namespace runner::lua
