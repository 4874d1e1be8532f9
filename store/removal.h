// Removes checkpoints beyond the retention rules, runs, and unused bytes.
//
// Removal never shares a transaction with an insertion: what was saved is committed before older data is removed.
// Thread safety: as for the given Store.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/store.h"

namespace runner::store {

struct Retention {
  std::optional<int64_t> keep_last = std::nullopt;  // keeps the n newest checkpoints
  struct Best {
    std::string metric;
    bool maximize = false;
    int64_t count = 1;
  };
  std::optional<Best> keep_best = std::nullopt;  // keeps the n best checkpoints; those without the metric, or with NaN,
                                                 // never count
};

// Removes the checkpoints of a run that no rule keeps, and the bytes that only they used. Always kept are the newest
// checkpoint that is not superseded and pinned ones. So is a checkpoint from which a forked run starts that has none of
// its own. Without rules all checkpoints are kept. Returns how many were removed.
int64_t prune_states(Store& store, int64_t run_id, const Retention& retention);

// Removes the checkpoints of a run other than `kept` and those that forks need. Call it inside a transaction.
void keep_states(Store& store, int64_t run_id, const std::set<int64_t>& kept);

// Moves a run to the trash: lists and names skip it, but nothing is deleted. Throws Error(kUsage) if a process is still
// running it.
void trash_run(Store& store, int64_t run_id);
// Moves a run out of the trash.
void restore_run(Store& store, int64_t run_id);

// Result of empty_trash().
struct PurgeResult {
  std::vector<std::string> removed;  // uids
  struct Kept {
    std::string uid, reason;  // `reason`: message of remove_run()
  };
  std::vector<Kept> kept;
};

// Removes the runs that have been in the trash for at least `grace_ms`, newest first. Runs that remove_run() refuses
// are kept. Throws Error(kStore).
PurgeResult empty_trash(Store& store, int64_t grace_ms);

// Removes a run with its points, checkpoints, artifacts and events. Runs forked from it stay, without a parent. Throws
// Error(kUsage) if a process is still running it. Also throws it if a forked run without a checkpoint of its own starts
// from one of its checkpoints (docs/decisions/026-removing-parents.md).
void remove_run(Store& store, int64_t run_id);

// The runs in the trash: their number, the content that only they use, and when the newest was moved there.
struct TrashUse {
  int64_t runs = 0, bytes = 0, newest_ms = 0;
};
TrashUse trash_use(Store& store);

// Returns the number of bytes that the file is larger than its pages: they cannot be released while another process
// reads an older version of the store.
int64_t held_bytes(Store& store);

// Removes unused content, recipes and environments, and returns free pages to the file system. The file must not be
// damaged (Store::check_file): content whose users cannot be read would be removed. Returns the number of bytes by
// which the file shrank. Returns 0 if it did not shrink, for example because another process wrote meanwhile. Cost:
// rewrites the file.
int64_t collect_garbage(Store& store);

}  // namespace runner::store
