// What `runner --version` prints.
#pragma once

#include <string>

namespace runner::cli {

// "runner 0.1.0".
std::string version();

}  // namespace runner::cli
