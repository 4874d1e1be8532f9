// Provenance recorded with a run in addition to its recipe: git state, environment, and source texts.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "store/provenance.h"

namespace runner::report {

// Returns the part that takes no time to collect: the environment and `sources`, the texts other than the recipe itself
// that the run was created from.
store::Provenance provenance_at_start(std::vector<store::AttemptSource> sources);

// Adds the git state of the recipe's folder `folder` and the uncommitted changes. Takes some milliseconds, at most one
// second. Does not throw if something cannot be determined.
void add_git_state(store::Provenance& provenance, const std::string& folder);

// ---- git ------------------------------------------------------------------------------------------------------------
//
// Runs `git` directly, without a shell, and kills it after a time limit, so that a run never waits for a slow disk or a
// large repository. Does not change the repository and runs no program from its configuration. Leaves no child process.

inline constexpr size_t kLargestDiff = size_t{256} << 10;  // maximum size of the recorded diff in bytes
inline constexpr size_t kMaxUntracked = 100;               // maximum number of recorded names

struct GitFindings {
  store::GitState state;
  std::string diff;  // uncommitted changes of tracked files, at most kLargestDiff bytes; a note says if it was cut
};

// `folder`: "" for the current folder. Never throws because of git; the note describes the problem.
GitFindings inspect_git(const std::string& folder, std::chrono::milliseconds limit = std::chrono::milliseconds(1000));

}  // namespace runner::report
