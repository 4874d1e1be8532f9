// Hooks that train as tests/golden/xla/compiles.py does.
#pragma once

#include <string>

#include "tests/golden/golden.h"

namespace runner::train::xla {

// Whether a case cannot be trained by the recipe alone.
bool needs_hook(const testing::Golden& item);
// Whether it can be trained without a hook's training loop.
bool is_declared(const testing::Golden& item);
// A hook with a training step.
std::string step_hook(const testing::Golden& item);
// A hook with its own training loop, in which a batch ends as in the script.
std::string loop_hook(const testing::Golden& item);

}  // namespace runner::train::xla
