// The job of Slurm in which this program runs, for the recipe key slurm.requeue. Not thread-safe.
#pragma once

#include <optional>

#include "runner/cli/attempt.h"
#include "runner/report/output.h"

namespace runner::cli {

// Returns the run that `attempt` has begun in this job before Slurm started the job again: the newest one of the same
// recipe, and of the same name or parent. Returns nullopt if there is none, or if the recipe does not set
// slurm.requeue. Throws Error(kUsage) if the job trains several runs at once: each would requeue it.
std::optional<store::RunDetails> run_before_requeue(const Attempt& attempt, const Options& options);

// Requeues the job, unless it is being cancelled or has no batch script. Slurm then ends its processes, so call it at
// the end of the program. Prints what it has done; does nothing outside a job.
void requeue_job(report::Output& out);

}  // namespace runner::cli
