// The store that a command works on, and the checkpoint from which it reads a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/cli/command.h"
#include "runner/report/output.h"
#include "store/queries.h"
#include "store/store.h"

namespace runner::cli {

// Path of the store: --db, else RUNNER_DB unless it is empty, else runner.db in the current folder. No output of the
// command may change it from now on (used_files.h).
std::filesystem::path store_path(const Options& options);

// Throws Error(kStore). Access for reading never creates a store.
store::Store open_store(const Options& options, store::Access access = store::Access::kRead);

// Adds `--db PATH`, if it was given, to the commands on runs that a text advises: "`runner ls`" and "next: runner show
// ID" at the end of a line.
std::string with_store_option(std::string text, const Options& options);
// The same for all texts of a JSON document.
std::string document_with_store_option(std::string document, const Options& options);

// Returns the runs that each selector names (store::find_runs), each run once. Throws Error(kNotFound) if a selector
// names none.
std::vector<store::RunRow> find_all(store::Store& store, const std::vector<std::string>& selectors, store::Trash trash);

// Returns the state that --state names: an id; a name; "best" by the metric that the recipe watches; "best(METRIC)"; or
// the newest if `text` is empty. Throws Error(kNotFound), and Error(kUsage) for another text.
store::StateInfo state_named(const store::RunDetails& run, const std::string& text);

// Returns a note if another state than the newest is the best by the metric that the recipe watches, else an empty
// text.
std::string better_state_note(const store::RunDetails& run);
// Prints that note, if there is one. Call it when nothing can fail any more, because the note would hide the failure.
void note_better_state(const store::RunDetails& run, report::Output& out);

// Prints a note if `selector` is a name that several runs have; `run` is the newest of them.
void note_namesakes(store::Store& store, const store::RunRow& run, const std::string& selector, report::Output& out);

struct ChosenState {
  store::RunDetails run;
  store::LoadedState state;
};

// Loads a run, and what evaluations read of the state that state_named() finds. Prints note_namesakes(). Throws like
// state_named(), and Error(kStore) if the state or the run's record is damaged.
ChosenState load_chosen_state(const Options& options, const std::string& run, const std::string& state,
                              report::Output& out);

}  // namespace runner::cli
