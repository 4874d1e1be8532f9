// Files that the recorded recipe of a run names, after the project folder was moved or copied.
//
// A recorded recipe has absolute paths. If a file that the recipe named by a relative path is gone, the last parts of
// its old path are looked for in the folder of the store and in the two folders above it. Later, fingerprints show
// whether the data are the same. Thread-safe.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/run_store.h"

namespace runner::cli {

struct FoundFiles {
  std::string resolved_json;         // of the recipe, with the present paths
  std::vector<std::string> missing;  // says of each file that was not found where it was looked for
};

// Files of keys that `overrides` ("KEY=VALUE") replace are not looked for.
FoundFiles find_files(const store::RecipeRecord& recipe, const std::filesystem::path& store,
                      std::span<const std::string> overrides = {});

// Returns those of `overrides` that replace settings with secrets, of which the recipe has only digests.
std::vector<std::string> overrides_of_secrets(const store::RecipeRecord& recipe,
                                              std::span<const std::string> overrides);

// A file that a recipe reads.
struct RecipeFile {
  std::string key;  // such as data.train.path
  std::filesystem::path path;
};

// Whether a path of a recipe is that of an output file.
bool is_output(std::string_view key);

// Returns the files that a recorded recipe reads, at their present paths. It needs no secret variables: files whose
// path contains a secret are left out. `resolved_json`: of find_files().
std::vector<RecipeFile> input_files(const store::RecipeRecord& recipe, const std::string& resolved_json);

}  // namespace runner::cli
