// What `runner --version` prints.
#pragma once

#include <string>

namespace runner::cli {

// "runner 0.1.0".
std::string version();

// What the linker has made of the contents of this program, in hexadecimal.  Throws Error(kRun) where it was linked
// without one.
std::string build_id();

}  // namespace runner::cli
