// What a training command prints when the run has ended.  Thread-safe.
#pragma once

#include <string>

#include "runner/train/run.h"

namespace runner::report {

// The run's id and end, its size, a table of metrics, states, every warning, and the next useful command.  The error of
// a failed run is not repeated here.
std::string summary_text(const train::RunResult& result, int width, bool color);

}  // namespace runner::report
