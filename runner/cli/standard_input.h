// Standard input of commands. Thread safety: none.
#pragma once

#include <string>

namespace runner::cli {

// Returns all of standard input. Throws Error(kData) if it cannot be read.
std::string read_standard_input();

}  // namespace runner::cli
