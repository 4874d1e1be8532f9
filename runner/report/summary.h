// Final output of a training command. Thread-safe.
#pragma once

#include <string>

#include "runner/train/run/run.h"

namespace runner::report {

// The run's id and status, its size, a table of metrics, its states, all warnings, and the next useful command. Does
// not repeat the error of a failed run.
std::string summary_text(const train::RunResult& result, int width, bool color);

}  // namespace runner::report
