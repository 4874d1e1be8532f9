// An attempt at a run: exec, resume and fork make one from a recipe or from the record of a run. training.h trains it.
// Thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/cli/command.h"
#include "runner/report/output.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/run/run.h"
#include "schema/recipe/recipe_reader.h"
#include "store/queries.h"
#include "store/run_store.h"

namespace runner::cli {

// How an attempt starts: a new run, a resumed run, or a fork of another run.
struct AttemptStart {
  std::string folder;                          // folder of the recipe
  std::vector<store::AttemptSource> includes;  // included recipes
  std::vector<train::HookSource> hook = {};    // recorded hook files, used instead of the present ones
  std::vector<std::string> warnings = {};      // warnings about the start
  std::string note = {};                       // printed when the attempt begins; empty for none
  train::RunOrigin origin = {};
};

// All inputs of an attempt.
struct Attempt {
  schema::ReadResult recipe;
  store::RecipeRecord record;
  std::vector<store::Param> params;
  AttemptStart start;
};

// ---- attempts from the record of a run ------------------------------------------------------------------------------

// Reads the record of the run that `selector` names. If `out` is given, prints note_namesakes() there.
store::RunDetails details_of(const std::string& selector, const Options& options, report::Output* out = nullptr);

// Adds information about the run to errors of `work`, for the JSON document.
template <class Work>
auto about_run(const store::RunRow& run, Work work) {
  try {
    return work();
  } catch (Error& error) {
    Error::Run about = error.run();
    about.id = run.uid;
    about.name = run.name;
    error.set_run(std::move(about));
    throw;
  }
}

// Returns the start with the recorded folder and includes.
AttemptStart recorded_start(const store::RunDetails& details);

// `recipe`: the recipe recorded in `details`, with the changes of the command line.
Attempt recorded_attempt(const store::RunDetails& details, schema::ReadResult recipe, AttemptStart start);

// Returns whether the command line sets the hook or removes it. `before`, `after`: the recipe without and with the
// settings of the command line.
bool names_hook(const schema::ReadResult& before, const schema::ReadResult& after);

// Continues the run with its recorded recipe and hook, and the changes of the command line. Throws Error(kUsage) or
// RecipeError for changes that a resumed run cannot have.
Attempt attempt_to_resume(const store::RunDetails& details, const std::filesystem::path& store,
                          const std::vector<std::string>& overrides);

}  // namespace runner::cli
