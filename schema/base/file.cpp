#include "schema/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace runner {
namespace {

// Returns null for a regular file.
const char* other_kind_of(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path) {
  struct stat status {};
  // Opening a device can have effects, so its kind is checked before and, as the path can change, after opening it.
  if (::stat(path.c_str(), &status) == 0) other_kind_ = other_kind_of(status.st_mode);
  if (other_kind_ != nullptr) return;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  error_ = errno;
  if (fd_ < 0) return;
  if (::fstat(fd_, &status) != 0 || (other_kind_ = other_kind_of(status.st_mode)) != nullptr) {
    error_ = errno;
    ::close(fd_);
    fd_ = -1;
  }
  size_ = status.st_size;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string RegularFile::problem() const {
  if (other_kind_ != nullptr) return std::string("it is ") + other_kind_;
  if (error_ == EAGAIN) return "reading it would wait for data; copy it to a file";
  return std::strerror(error_);
}

ssize_t RegularFile::read(std::span<std::byte> out) {
  constexpr size_t kMost = size_t{1} << 30;
  for (;;) {
    const ssize_t got = ::read(fd_, out.data(), std::min(out.size(), kMost));
    if (got >= 0) return got;
    error_ = errno;
    if (error_ != EINTR) return -1;
  }
}

ssize_t RegularFile::read_at(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool RegularFile::read_text(std::string& text, size_t limit) {
  constexpr size_t kPart = size_t{64} << 10;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPart);
    const ssize_t got = read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got <= 0) return got == 0;
    if (text.size() > limit) return true;
  }
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  RegularFile file(path);
  std::string text;
  if (!file.is_open() || !file.read_text(text, std::numeric_limits<size_t>::max())) return std::nullopt;
  return text;
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(folder.empty() ? "." : folder, error);
  const std::filesystem::path real =
      error ? root : std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  return !error && std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
}

}  // namespace runner
