// Trains an attempt of exec, resume or fork, and reports the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/cli/attempt.h"

namespace runner::cli {

// Trains until the run ends or is interrupted; after the loss of a process resumes it, up to max_restarts times. Prints
// progress unless `quiet`, then the summary or the JSON document. With slurm.requeue, requeues its job of Slurm after
// an interruption, and continues the run that the job has begun before. Returns the exit code of the run. Throws an
// Error if the run does not begin.
int run_and_report(Attempt attempt, const Options& options, bool quiet, report::Output& out);

// The same for the run that `--hosts` continues after the loss of a process, whatever the command line says. If the run
// has no state yet, it begins again: as a fork, if `fork` is not null. Returns nullopt if there is no such run.
std::optional<int> continue_lost_run(const train::ForkRequest* fork, const Options& options, bool quiet,
                                     report::Output& out);

// Prints the result of a run that is done. `ignored`: settings of the command line. Returns the exit code.
int report_finished(const store::RunDetails& run, const std::vector<std::string>& ignored, const Options& options,
                    report::Output& out);

}  // namespace runner::cli
