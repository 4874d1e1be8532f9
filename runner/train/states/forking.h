// Starting a child run from a state of another run, under a recipe that may differ in anything.
//
// What fits is taken over exactly; what the change makes meaningless starts afresh, each with a warning that says so
// (docs/decisions/011-forks.md has the rules).  Under the same recipe the child goes on as a resumed run would, bit for
// bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/train/loop/session.h"
#include "runner/train/states/checkpoint.h"
#include "store/queries.h"

namespace runner::train {

// Which state a child starts from.
struct ForkRequest {
  std::string run;             // id of the parent
  int64_t state = -1;          // −1: the newest
  bool restart = false;        // the weights alone: step, optimizer, schedule and data start afresh
  schema::Recipe before = {};  // of the parent
};

// What a session has taken over.
struct Forked {
  store::StateInfo info;
  RunState state;  // position, patience: where the child begins
  std::vector<std::string> warnings;
};

// Puts the state into the session's trainer and schedule.  Throws Error(kNotFound) where there is no such state,
// Error(kRecipe) where its model is another, and Error(kUsage) where nothing would be left to train.
Forked restore_fork(store::Store& store, const store::RunRow& parent, const ForkRequest& request, Session& session);

}  // namespace runner::train
