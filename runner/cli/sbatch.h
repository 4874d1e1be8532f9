// Submits batch scripts to Slurm. Thread-safe.
#pragma once

#include <string>

#include "runner/report/output.h"

namespace runner::cli {

// Runs `sbatch`, which reads `script` from its standard input, and prints its messages. Returns the id of the job.
// Throws Error(kRun) if sbatch is missing or fails.
std::string submit_to_slurm(const std::string& script, report::Output& out);

}  // namespace runner::cli
