// Paths of the source tree and of the build folder. Only paths.cpp knows them, so that a compiler cache serves the
// tests of every clone. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace runner::support {

// Returns the absolute path of a file of the source tree; without an argument, of the tree itself.
std::string source_path(std::string_view file = {});
// Returns the absolute path of a file that the build makes, such as "bin/runner".
std::string build_path(std::string_view file);

}  // namespace runner::support
