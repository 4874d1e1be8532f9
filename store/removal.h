// What goes away: states that retention does not keep, runs, and bytes that nothing uses.
//
// Removing never happens in the transaction that adds: what a caller has saved is committed before anything older goes.
// Thread safety: as the Store given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace runner::store {

struct Retention {
  std::optional<int64_t> keep_last = std::nullopt;  // newest n
  struct Best {
    std::string metric;
    bool maximize = false;
    int64_t count = 1;
  };
  std::optional<Best> keep_best = std::nullopt;  // best n; a state without the metric, or with NaN, is never among them
};

// Removes the states of a run that no rule keeps, and the bytes that only they used.  Kept: the newest state that is
// not superseded, the rules' states, pinned ones, and one that a forked run without a state of its own still starts
// from. Without any rule all states are kept.  Returns how many were removed.
int64_t prune_states(Store& store, int64_t run_id, const Retention& retention);

// Moves a run to the trash: lists and names pass it over, nothing of it is lost.  Throws Error(kUsage) if a process is
// still running it.
void trash_run(Store& store, int64_t run_id);
// Takes it out again.
void restore_run(Store& store, int64_t run_id);

// What emptying the trash has done.
struct Emptied {
  std::vector<std::string> removed;  // ids
  struct Kept {
    std::string uid, reason;  // what remove_run() says
  };
  std::vector<Kept> kept;
};

// Removes the runs that have been in the trash for at least `grace_ms`, newest first, but for those that remove_run()
// refuses.  Throws Error(kStore).
Emptied empty_trash(Store& store, int64_t grace_ms);

// Removes a run with all its points, states, artifacts and events; its children keep theirs and lose the parent. Throws
// Error(kUsage) if a process is still running it, or if a forked run without a state of its own still starts from one
// of its states (docs/decisions/026-removing-parents.md).
void remove_run(Store& store, int64_t run_id);

// Removes bytes and recipes that nothing uses and gives the file's free pages back to the file system.  Returns by how
// many bytes the file shrank; 0 where others have written more meanwhile, or the file rewritten is no smaller.  Cost:
// rewrites the file.
int64_t collect_garbage(Store& store);

}  // namespace runner::store
