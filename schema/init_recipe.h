// The recipe that `runner init` writes.  Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace runner::schema {

// A small commented recipe that runs as it is (on synthetic data) and shows where to put one's own.  `name` becomes the
// run's name.  Throws Error(kUsage) if the name is empty or holds a control character.
std::string init_recipe(std::string_view name);

}  // namespace runner::schema
