// The entry `transform` of a hook: Lua code that changes the features of training samples, in a Lua state of its own.
//
// The state runs the hook's files again, so file-level values exist there as copies. The result for a sample depends
// only on the run's seed, the epoch and the sample's id: math.random is seeded from these. Globals are read-only, and
// upvalues and tables are compared with a snapshot to detect data carried from one sample to the next.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runner/data/transform.h"
#include "runner/lua/runtime.h"
#include "schema/recipe/recipe.h"

namespace runner::lua {

// `sources`: the files as the hook read them. `print`: receives the lines that the transform prints, when they are
// passed on. `interrupted`: returns true if calls should end soon; called on the thread that runs the transform. The
// recipe must outlive the transform. Throws Error(kRecipe) with the line if a file cannot be run.
std::unique_ptr<data::Transform> make_transform(const schema::Recipe& recipe, std::vector<SourceFile> sources,
                                                std::function<void(std::string_view)> print,
                                                std::function<bool()> interrupted = nullptr);

}  // namespace runner::lua
