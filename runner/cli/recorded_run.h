// Recipes and source texts in the record of a run. Thread-safe.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/moved_files.h"
#include "runner/report/documents.h"
#include "runner/train/loop/hooks.h"
#include "schema/recipe/recipe_reader.h"
#include "store/queries.h"
#include "store/run_store.h"

namespace runner::cli {

// No output of the command may replace the recipes of the run and the files that it has read, as its record names them,
// from then on (used_files.h), although not every command opens them. The recipe may be damaged or lack secret
// variables. `store`: file of the store, near which moved files are looked for (moved_files.h).
void remember_recorded_files(const store::RunDetails& run, const std::filesystem::path& store);

// Reads the recorded recipe of a run with overrides. Messages name it RUN/resolved.json, as `runner export RUN --folder
// RUN` writes it, and give the command that prints it. Calls remember_recorded_files(), and remembers the files of the
// recipe with the overrides.
schema::ReadResult recorded_recipe(const store::RunDetails& run, const std::filesystem::path& store,
                                   std::span<const std::string> overrides = {});

// Returns what `show` prints about a run in addition to its RunDetails.
report::MoreOfRun more_of(store::Store& store, const store::RunRow& run);

// Adds to the faults of the recorded recipe of `run`, an id, how to print that file.
schema::RecipeError with_way_to_open(const schema::RecipeError& error, std::string_view run);

// Calls work(), whose faults of the recorded recipe get that addition.
template <class Work>
auto about_recorded_recipe(std::string_view run, Work work) {
  try {
    return work();
  } catch (const schema::RecipeError& error) {
    throw with_way_to_open(error, run);
  }
}

// Calls work(). Adds to an error about data which files of the recorded recipe are missing, without those of keys that
// `overrides` replace.
template <class Work>
auto about_missing_files(const store::RunDetails& run, const std::filesystem::path& store,
                         std::span<const std::string> overrides, Work work) {
  try {
    return work();
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kData)
      for (const std::string& text : find_files(run.recipe, store, overrides).missing) error.note(text);
    throw;
  }
}

store::RecipeRecord record_of(const schema::ReadResult& recipe);

// Returns the record of a resumed run. Keeps the text and origins of `before`, except that settings from the command
// line of this attempt have that origin.
store::RecipeRecord record_of_resumed(const store::RecipeRecord& before, const schema::ReadResult& after);

// Replaces paths in `after` that this attempt did not set by their original spelling in `before`, so that resuming
// alone changes neither hash nor parameters.
schema::ReadResult with_paths_as_written(const store::RecipeRecord& before, schema::ReadResult after);

std::vector<store::Param> params_of(const schema::ReadResult& recipe);

// ---- source texts other than the recipe, and their comparison with the present files --------------------------------

// Returns the included recipes, as an attempt records them.
std::vector<store::AttemptSource> includes_of(const schema::ReadResult& recipe);
// Returns the included recipes of the newest attempt that recorded any.
std::vector<store::AttemptSource> recorded_includes(const store::RunDetails& run);

struct RecordedHook {
  enum class Files { kSame, kChanged, kMissing };

  std::vector<train::HookSource> sources;  // from the newest attempt that recorded any; empty if none did
  // State of the files compared with `sources`; kMissing: the hook file itself is missing.
  Files files = Files::kSame;
  std::string file;  // the changed or missing file
};

// `recipe`: recipe of the run. A file that cannot be read counts as missing.
RecordedHook recorded_hook(const store::RunDetails& run, const schema::Recipe& recipe);

}  // namespace runner::cli
