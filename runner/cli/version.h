// Version information of the program.
#pragma once

#include <string>

namespace runner::cli {

// "runner 0.1.0".
std::string version();

// Returns the build id, a hash of the program's contents made by the linker, in hexadecimal. Throws Error(kRun) if the
// program was linked without one.
std::string build_id();

}  // namespace runner::cli
