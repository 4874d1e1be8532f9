// Starts a child run from a checkpoint of another run, under a recipe that may differ in anything.
//
// State that fits is restored exactly. State that the changes make meaningless is reset, with a warning for each
// (docs/decisions/011-forks.md has the rules). Under the same recipe, the child continues like a resumed run, bit for
// bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/train/loop/session.h"
#include "runner/train/run/checkpoint_sections.h"
#include "store/queries.h"

namespace runner::train {

// The checkpoint to start from.
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
