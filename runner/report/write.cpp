#include "runner/report/write.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "schema/error.h"

namespace runner::report {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // less the umask

// Returns 0, or errno; a file that could not be written is removed.
int create(const char* path, std::string_view contents) {
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd < 0) return errno;
  int error = write_all(fd, contents);
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) ::unlink(path);
  return error;
}

void check(int error, const fs::path& path) {
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot write {}: {}", path.string(), std::strerror(error));
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

void write_file(const fs::path& path, std::string_view contents) {
  const std::string beside = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  check(create(beside.c_str(), contents), path);
  if (std::rename(beside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(beside.c_str());
  check(error, path);
}

void write_new_file(const fs::path& path, std::string_view contents) {
  const int error = create(path.c_str(), contents);
  RUN_CHECK(error != EEXIST, ErrorKind::kUsage, "{} exists already; name another file, or remove it", path.string());
  check(error, path);
}

}  // namespace runner::report
