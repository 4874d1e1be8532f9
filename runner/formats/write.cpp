#include "runner/formats/write.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner::formats {
namespace {

namespace fs = std::filesystem;
using Parts = std::span<const std::string_view>;

constexpr mode_t kMode = 0666;  // modified by the umask

// Returns 0 or errno.
int write_parts(int fd, Parts parts) {
  int error = 0;
  for (size_t i = 0; i < parts.size() && error == 0; ++i) error = write_all(fd, parts[i]);
  return error;
}

// Opens `path` with `flags` and writes `parts`. Returns 0 or errno.
int write_parts(const char* path, int flags, Parts parts) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC | flags, kMode);
  if (fd < 0) return errno;
  int error = write_parts(fd, parts);
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

// Creates a file that must not exist, with the permissions of `like` unless null, and syncs it. Returns 0 or errno. An
// incomplete file is removed.
int create(const char* path, Parts parts, const struct stat* like = nullptr) {
  const mode_t mode = like != nullptr ? like->st_mode & 0777 : kMode;
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, mode);
  if (fd < 0) return errno;
  // Restores bits cleared by the umask. Failure is ignored: some file systems have no permissions.
  if (like != nullptr) static_cast<void>(!::fchmod(fd, mode));
  int error = write_parts(fd, parts);
  // Sync before the rename: otherwise a power failure could leave the final name with missing contents.
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) ::unlink(path);
  return error;
}

void check(int error, const fs::path& path) {
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot write {}: {}", path.string(), system_reason(error));
}

// Writes a temporary file next to `path` under an unused name. Returns its name.
std::string write_temporary(const fs::path& path, Parts parts) {
  constexpr int kMaxNames = 1000;
  std::string temporary;
  struct stat old {};
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  int error = EEXIST;
  for (int i = 0; i < kMaxNames && error == EEXIST; ++i) {
    temporary = fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), i);
    error = create(temporary.c_str(), parts, replaces ? &old : nullptr);
  }
  check(error, path);
  return temporary;
}

// An output file that replaced a store would destroy all its runs.
void check_no_store(const fs::path& path) {
  constexpr std::string_view kSqlite = "SQLite format 3";
  std::string start(kSqlite.size(), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  RUN_CHECK(start != kSqlite, ErrorKind::kUsage, "{} is a store or another SQLite database; choose another file",
            path.string());
}

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void write_file(const fs::path& path, Parts parts) {
  // Writes to the descriptor, because a file to which the shell appends must not be replaced.
  if (path == "-" || path == "/dev/stdout") return check(write_parts(STDOUT_FILENO, parts), path);
  std::error_code ignored;  // for a broken path; writing reports the error
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : path;
  // Anything other than a regular file is written to in place, including a dangling link.
  if (fs::exists(fs::symlink_status(target, ignored)) && !fs::is_regular_file(target, ignored)) {
    return check(write_parts(target.c_str(), O_CREAT, parts), path);
  }
  check_no_store(target);
  const std::string temporary = write_temporary(target, parts);
  if (std::rename(temporary.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  check(error, path);
}

void write_new_file(const fs::path& path, std::string_view contents) {
  const int error = create(path.c_str(), std::span(&contents, 1));
  RUN_CHECK(error != EEXIST, ErrorKind::kUsage, "{} already exists; choose another file or remove it", path.string());
  check(error, path);
}

}  // namespace runner::formats
