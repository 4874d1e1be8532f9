// The state that a command reads a model from.
#pragma once

#include "runner/cli/command.h"
#include "store/queries.h"

namespace runner::cli {

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// The state `id` of the run; Options::kNotGiven: its newest.  Throws Error(kNotFound), or Error(kStore) where the state
// is damaged.
ChosenState load_chosen_state(store::Store& store, const store::RunRow& run, int64_t id);
// The same for options.run and options.state.
ChosenState load_chosen_state(const Options& options);

}  // namespace runner::cli
