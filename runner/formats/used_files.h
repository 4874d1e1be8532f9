// Files that this process uses and that no output may change: stores, recipes, hooks, data
// (docs/decisions/085-one-check-of-every-output.md). Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

namespace runner::formats {

enum class FileRole { kStore, kRecipe, kRecipeOfRun, kHook, kData, kReadByRun, kInput };

// Remembers a file, which need not exist yet.
void remember_used_file(const std::filesystem::path& path, FileRole role);

// Returns the file that a program writes which opens `path`: without symbolic links, also without a last one whose
// target does not exist yet. Returns `path` if its links form a cycle.
std::filesystem::path resolved_path(const std::filesystem::path& path);

// Throws Error(kUsage) if writing to `path` would change a used file, an SQLite database, or a file that SQLite keeps
// next to a database, also through a link or another spelling. `key`: key of the recipe with the path, or empty.
void check_output(const std::filesystem::path& path, std::string_view key = {});

}  // namespace runner::formats
