// The store that a command works on, and the checkpoint from which it reads a model.
#pragma once

#include <filesystem>

#include "runner/cli/command.h"
#include "store/queries.h"
#include "store/store.h"

namespace runner::cli {

// Path of the store: --db, else RUNNER_DB unless it is empty, else runner.db in the current folder.
std::filesystem::path store_path(const Options& options);

// Throws Error(kStore). Access for reading never creates a store.
store::Store open_store(const Options& options, store::Access access = store::Access::kRead);

// Returns the state `id` of the run; Options::kNotGiven means the newest one. Throws Error(kNotFound), or Error(kStore)
// if the state is damaged.
store::LoadedState load_state(store::Store& store, const store::RunRow& run, int64_t id);

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// Loads a run and its state `state`, or the newest one with Options::kNotGiven. Throws like load_state(), and
// Error(kStore) if the run's record is damaged.
ChosenState load_chosen_state(const Options& options, const std::string& run, int64_t state);

}  // namespace runner::cli
