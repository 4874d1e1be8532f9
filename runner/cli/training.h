// Trains an attempt of exec, resume or fork, and reports the result.
#pragma once

#include "runner/cli/attempt.h"

namespace runner::cli {

// Trains until the run ends or is interrupted; after the loss of a process resumes it, up to max_restarts times. Prints
// progress unless `quiet`, then the summary or the JSON document. Returns the exit code of the run. Throws an Error if
// the run does not begin.
int run_and_report(Attempt attempt, const Options& options, bool quiet, report::Output& out);

}  // namespace runner::cli
