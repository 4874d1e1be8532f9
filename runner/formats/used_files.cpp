#include "runner/formats/used_files.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>

#include "schema/base/error.h"
#include "schema/base/file.h"

namespace runner::formats {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(FileRole role) {
  switch (role) {
    case FileRole::kStore: return "the store that this command uses";
    case FileRole::kRecipe: return "the recipe that this command uses";
    case FileRole::kRecipeOfRun: return "a recipe of the run";
    case FileRole::kHook: return "the hook of the run";
    case FileRole::kData: return "a data file of the run";
    case FileRole::kReadByRun: return "a file that the run has read";
    case FileRole::kInput: return "a file that this command uses";
  }
  return {};
}

// Roles by path. A path is resolved when it is compared, because the file may be replaced or created meanwhile.
class UsedFiles {
 public:
  void add(const fs::path& path, FileRole role) {
    std::error_code ignored;
    const fs::path absolute = fs::absolute(path, ignored);
    const std::lock_guard lock(mutex_);
    roles_.try_emplace(absolute.empty() ? path : absolute, role);
  }

  // Returns the role of a file, whatever path names it.
  std::optional<FileRole> role_of(const fs::path& file) {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, role] : roles_) {
      std::error_code ignored;
      if (fs::equivalent(path, file, ignored) || resolved_path(path) == file) return role;
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<fs::path, FileRole> roles_;
};

UsedFiles& used_files() {
  static UsedFiles files;
  return files;
}

bool is_database(const fs::path& path) {
  constexpr std::string_view kSqlite = "SQLite format 3";
  RegularFile file(path);
  std::string start(kSqlite.size(), '\0');
  return file.is_open() && file.read(std::as_writable_bytes(std::span(start))) == std::ssize(start) && start == kSqlite;
}

// Returns the database next to which SQLite keeps a file of this name; none if there is no such database.
std::optional<fs::path> database_of(const fs::path& file) {
  for (const std::string_view suffix : {"-wal", "-shm", "-journal"}) {
    std::string name = file.string();
    if (!name.ends_with(suffix)) continue;
    name.resize(name.size() - suffix.size());
    if (is_database(name) || used_files().role_of(name) == FileRole::kStore) return name;
  }
  return std::nullopt;
}

}  // namespace

void remember_used_file(const fs::path& path, FileRole role) {
  used_files().add(path, role);
}

fs::path resolved_path(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as in the kernel
  std::error_code error;
  fs::path target = fs::absolute(path, error);
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, error); ++i)
    target = target.parent_path() / fs::read_symlink(target, error);
  const fs::path resolved = fs::weakly_canonical(target, error);
  return error ? path : resolved;
}

void check_output(const fs::path& path, std::string_view key) {
  const fs::path file = resolved_path(path);
  const auto refuse = [&](std::string_view reason) {
    fail(ErrorKind::kUsage, "{}{}cannot write {}: it is {}; choose another file", key, key.empty() ? "" : ": ",
         path.string(), reason);
  };
  if (const auto role = used_files().role_of(file)) refuse(text_of(*role));
  if (is_database(file)) refuse("a store or another SQLite database");
  if (const auto database = database_of(file)) refuse(fmt::format("part of the store {}", database->string()));
}

}  // namespace runner::formats
