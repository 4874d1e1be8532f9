// Restores a run from one of its checkpoints, or a child run from a checkpoint of another run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/train/loop/checkpoint.h"
#include "runner/train/loop/session.h"
#include "store/queries.h"

namespace runner::train {

// The restored checkpoint, and warnings about newer ones that cannot be used.
struct Resumed {
  store::StateInfo info;
  Checkpoint state;
  std::vector<std::string> warnings;
};

// Restores trainer and schedule from checkpoint `id`, or from the newest intact one. Throws Error(kNotFound) if there
// is no checkpoint, the error of the newest one if none is intact, and Error(kData) if the data have changed.
Resumed restore_run(store::Store& store, const store::RunRow& run, std::optional<int64_t> id, Session& session);

// Restores model, optimizers and schedule of the running run from one of its checkpoints. The data position and the
// counts of optimizer steps, samples and batches are kept; train/loss starts again.
Checkpoint restore_values(store::Store& store, int64_t id, Session& session);

// Returns which points were recorded before a checkpoint and will not be recorded again after it.
store::SeriesPosition recorded_before(const Resumed& found);
// Returns the metrics of a run, restricted to those points.
std::vector<store::MetricSummary> metrics_until(store::Store& store, const store::RunRow& run,
                                                const store::SeriesPosition& recorded);

// Returns the largest step of any metric point of a run; 0 if there is none.
int64_t last_recorded_step(store::Store& store, const store::RunRow& run);

// Returns a warning if a run that has become longer stretches its schedule, so that the learning rate jumps up.
// `metrics`: those recorded before.
std::optional<std::string> stretched_schedule(const Session& session, const std::vector<store::MetricSummary>& metrics);

// ---- forks ----------------------------------------------------------------------------------------------------------

// The checkpoint that a child run starts from. The child runs under a recipe that may differ in anything.
// State that fits is restored exactly. State that the changes make meaningless is reset, with a warning for each
// (docs/decisions/011-forks.md has the rules). Under the same recipe, the child continues like a resumed run, bit for
// bit.
struct ForkRequest {
  std::string run;             // id of the parent
  int64_t state = -1;          // checkpoint id; −1: the newest
  bool restart = false;        // restore only the weights; reset step, optimizer, schedule and data
  schema::Recipe before = {};  // of the parent
};

// Result of restoring a fork.
struct Forked {
  store::StateInfo info;
  Checkpoint state;  // position, patience: where the child begins
  std::vector<std::string> warnings;
};

// Restores the checkpoint into the session's trainer and schedule. Throws Error(kNotFound) if there is no such
// checkpoint, Error(kRecipe) if its model differs, and Error(kUsage) if nothing remains to be trained.
Forked restore_fork(store::Store& store, const store::RunRow& parent, const ForkRequest& request, Session& session);

}  // namespace runner::train
