// What git says about the folder of a recipe.
//
// Runs `git` directly, without a shell, and kills it when the time is up: a run never waits for a slow disk or a
// repository of any size.  Changes nothing in the repository and runs no program that its configuration names.
// Thread-safe; leaves no child process behind.
#pragma once

#include <chrono>
#include <string>

#include "store/provenance.h"

namespace runner::report {

inline constexpr size_t kLargestDiff = size_t{256} << 10;  // bytes kept of the uncommitted changes
inline constexpr size_t kMostUntracked = 100;              // names kept

struct GitFindings {
  store::GitState state;
  std::string diff;  // of files that git tracks, against the commit, at most kLargestDiff bytes; the note says if cut
};

// `folder`: "" is the current one.  Never throws for what git does or is not: the note says it.
GitFindings inspect_git(const std::string& folder, std::chrono::milliseconds limit = std::chrono::milliseconds(1000));

}  // namespace runner::report
