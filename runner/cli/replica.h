// The other replicas of a run: what exec tells those that are processes, and what they and those that are threads do.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/train/run.h"
#include "runner/train/step/hooks.h"
#include "schema/recipe.h"

namespace runner::cli {

// What each other replica is told: the recipe, also resolved, and where the hook is recorded its files.  Empty where
// there is none.
std::string replica_job(const schema::Recipe& recipe, const std::string& resolved,
                        const std::vector<train::HookSource>& hook);

// What such a thread does.  `hook`: as above.
train::Follow follower(std::vector<train::HookSource> hook);

// The whole program of such a process; `words`: its command line behind train::kReplicaWord.  Says nothing: what goes
// wrong is told to rank 0.
int run_as_replica(std::span<const std::string> words);

}  // namespace runner::cli
