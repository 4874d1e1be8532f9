// The state that a command reads a model from.
#pragma once

#include "runner/cli/command.h"
#include "store/queries.h"

namespace runner::cli {

// The state `id` of the run; Options::kNotGiven: its newest.  Throws Error(kNotFound), or Error(kStore) where the state
// is damaged.
store::LoadedState load_state(store::Store& store, const store::RunRow& run, int64_t id);

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// options.run and its state options.state.  Throws the same, and Error(kStore) where the run's record is damaged.
ChosenState load_chosen_state(const Options& options);

}  // namespace runner::cli
