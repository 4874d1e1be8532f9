#include "runner/train/run/trace_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/formats/chrome_trace.h"
#include "runner/formats/used_files.h"
#include "runner/formats/write.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner::train {
namespace {

namespace fs = std::filesystem;
using formats::kTraceBegin;
using formats::kTraceEnd;

constexpr mode_t kTraceFileMode = 0666;  // minus the umask

[[noreturn]] void cannot_write(const std::string& path, std::string_view reason) {
  fail(ErrorKind::kData, "profile.out: cannot write {}: {}", path, reason);
}

int open_file(const std::string& path) {
  formats::check_output(path, "profile.out");
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) cannot_write(path, error.message());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kTraceFileMode);
  if (fd < 0) cannot_write(path, std::strerror(errno));
  return fd;
}

// Whether the file is empty or was a trace.
bool may_be_replaced(int fd) {
  std::array<char, kTraceBegin.size()> start{};
  const ssize_t got = ::pread(fd, start.data(), start.size(), 0);
  return got == 0 || std::string_view(start.data(), got > 0 ? static_cast<size_t>(got) : 0) == kTraceBegin;
}

}  // namespace

TraceFile::TraceFile(std::string path) : path_(std::move(path)), fd_(open_file(path_)) {
  struct stat info {};
  ::fstat(fd_, &info);
  if (S_ISREG(info.st_mode) && may_be_replaced(fd_)) return;
  ::close(fd_);
  fail(ErrorKind::kData, "profile.out: {} already exists and is not a trace; choose another file or remove it", path_);
}

TraceFile::~TraceFile() {
  ::close(fd_);
}

// Returns 0 or an errno value.
int TraceFile::write(std::string_view text, int64_t offset) {
  if (::lseek(fd_, offset, SEEK_SET) < 0) return errno;
  return formats::write_all(fd_, text);
}

void TraceFile::begin() {
  int error = ::ftruncate(fd_, 0) == 0 ? 0 : errno;
  if (error == 0) error = write(fmt::format("{}{}", kTraceBegin, kTraceEnd), 0);
  if (error != 0) cannot_write(path_, system_reason(error));
  end_ = static_cast<int64_t>(kTraceBegin.size());
  empty_ = true;
}

std::optional<std::string> TraceFile::add(std::string_view events) {
  const std::string text = fmt::format("{}{}{}", empty_ ? "" : formats::kTraceBetween, events, kTraceEnd);
  if (const int error = write(text, end_)) {
    const int64_t before = end_ + static_cast<int64_t>(kTraceEnd.size());
    const bool restored = write(kTraceEnd, end_) == 0 && ::ftruncate(fd_, before) == 0;
    return fmt::format("profile.out: cannot write {}: {}; a cycle is missing{}; `runner trace` writes all cycles",
                       path_, system_reason(error), restored ? "" : " and the file is not valid JSON");
  }
  end_ += static_cast<int64_t>(text.size() - kTraceEnd.size());
  empty_ = false;
  return std::nullopt;
}

}  // namespace runner::train
