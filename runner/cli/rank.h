// The other ranks of a run: the job description sent to ranks that are processes, and the function that ranks execute,
// as processes or threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/train/loop/hooks.h"
#include "runner/train/run/mpi_ranks.h"
#include "runner/train/run/run.h"
#include "schema/recipe/recipe.h"

namespace runner::cli {

// Returns the job description for the other ranks: the recipe, its resolved form, and the recorded hook files if there
// are any. Returns "" for a single process.
std::string rank_job(const schema::Recipe& recipe, const std::string& resolved,
                     const std::vector<train::HookSource>& hook);

// Returns the function executed by a rank that is a thread. `hook`: the recorded hook files.
train::Follow follower(std::vector<train::HookSource> hook);

// Main function of a rank that is a process. `words`: its command line after train::kRankWord. Prints nothing;
// errors are sent to rank 0.
int run_as_rank(std::span<const std::string> words);

// The same for a rank that a launcher has started. Returns the exit code.
int follow_launched(train::MpiRanks& ranks);

}  // namespace runner::cli
