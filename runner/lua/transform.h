// `transform` of a hook: Lua that changes the features of training samples, in a state of its own.
//
// The state runs the hook's files again, so what stands at file level is there, as a copy.  A sample is a function of
// the run's seed, the epoch and its id: math.random draws from those, and what could carry anything from one sample to
// the next is refused or found out: globals are read-only, upvalues and tables are compared with what they were.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runner/data/transform.h"
#include "runner/lua/runtime.h"
#include "schema/recipe.h"

namespace runner::lua {

// What `sample` has.
std::span<const std::string_view> sample_fields();

// `sources`: the files as the hook has read them.  `print` takes the lines that the transform prints, when they are
// passed on.  The recipe must outlive the transform.  Throws Error(kRecipe) with the line where the file cannot be run.
// `interrupted`, which is asked on the thread that transforms: whether a call is to come to its end soon.
std::unique_ptr<data::Transform> make_transform(const schema::Recipe& recipe, std::vector<Source> sources,
                                                std::function<void(std::string_view)> print,
                                                std::function<bool()> interrupted = nullptr);

}  // namespace runner::lua
