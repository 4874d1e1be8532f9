// The checkpoint from which a command reads a model.
#pragma once

#include "runner/cli/command.h"
#include "store/queries.h"

namespace runner::cli {

// Returns the state `id` of the run; Options::kNotGiven means the newest one. Throws Error(kNotFound), or Error(kStore)
// if the state is damaged.
store::LoadedState load_state(store::Store& store, const store::RunRow& run, int64_t id);

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// Loads the run options.run and its state options.state. Throws like load_state(), and Error(kStore) if the run's
// record is damaged.
ChosenState load_chosen_state(const Options& options);

}  // namespace runner::cli
