// The state that a command reads a model from.
#pragma once

#include "runner/cli/command.h"
#include "store/queries.h"

namespace runner::cli {

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// The run of options.run, with options.state or else its newest state.  Throws Error(kNotFound), or Error(kStore) where
// the state is damaged.
ChosenState load_chosen_state(const Options& options);

}  // namespace runner::cli
