#include "runner/train/run/log_sink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/formats/used_files.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;  // minus the umask

[[noreturn]] void cannot_write(std::string_view key, const std::string& path, std::string_view reason) {
  fail(ErrorKind::kData, "{}: cannot write {}: {}", key, path, reason);
}

void make_folder(std::string_view key, const std::string& path, const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) cannot_write(key, path, error.message());
}

bool is_pipe(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

// Opens a pipe for reading too, so that opening works without a reader and a reader that leaves is no error.
int open_for_appending(std::string_view key, const std::string& path, int flags) {
  formats::check_output(path, key);
  const int how = is_pipe(path) ? O_RDWR | O_NONBLOCK : flags;
  const int fd = ::open(path.c_str(), how | O_APPEND | O_CLOEXEC, kMode);
  if (fd < 0) cannot_write(key, path, std::strerror(errno));
  return fd;
}

// Locks the file against other runs that start with it, so that only one writes the header.
class Locked {
 public:
  explicit Locked(int fd) : fd_(fd) { ::flock(fd_, LOCK_EX); }
  ~Locked() { ::flock(fd_, LOCK_UN); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const int fd_;
};

std::string bytes_at(int fd, size_t count, off_t offset) {
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), count, offset);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

}  // namespace

LogSink LogSink::text(std::string key, const std::string& path, const std::string& header) {
  make_folder(key, path, fs::path(path).parent_path());
  const int fd = open_for_appending(key, path, O_RDWR | O_CREAT);
  LogSink sink(std::move(key), path, fd);
  struct stat info {};
  ::fstat(fd, &info);
  sink.is_pipe_ = S_ISFIFO(info.st_mode);
  if (!S_ISREG(info.st_mode)) {
    sink.preface(header);
    return sink;
  }
  const Locked locked(fd);
  ::fstat(fd, &info);
  const size_t start_size = std::max<size_t>(1, header.size());
  const std::string start = bytes_at(fd, start_size, 0);
  if (start.size() < start_size && header.starts_with(start)) {  // a new file, or a full disk has cut its header
    sink.preface(std::string_view(header).substr(start.size()));
    sink.flush();
    sink.failing_ = false;  // the next flush() warns
    return sink;
  }
  RUN_CHECK(start == (header.empty() ? "{" : header), ErrorKind::kData,
            "{}: {} already exists and is not a log of points: it does not begin with {}; choose another file",
            sink.key_, path, header.empty() ? "{" : header.substr(0, header.size() - 1));
  sink.had_points_ = info.st_size > static_cast<off_t>(header.size());
  // A killed run or a full disk may have left an incomplete line.
  if (bytes_at(fd, 1, info.st_size - 1) != "\n") sink.preface("\n");
  return sink;
}

LogSink LogSink::events(std::string key, const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  make_folder(key, path, folder);
  const int fd = open_for_appending(key, path, O_WRONLY | O_CREAT);
  return {std::move(key), path, fd};
}

LogSink::~LogSink() {
  if (fd_ >= 0) ::close(fd_);
}

LogSink::LogSink(LogSink&& other) noexcept
    : key_(std::move(other.key_)),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      is_pipe_(other.is_pipe_),
      had_points_(other.had_points_),
      failing_(other.failing_),
      waiting_(std::move(other.waiting_)),
      ends_(std::move(other.ends_)),
      written_(other.written_),
      dropped_(other.dropped_) {}

void LogSink::preface(std::string_view bytes) {
  waiting_ += bytes;
}

void LogSink::add(std::string_view point, size_t limit) {
  if (waiting_.size() + point.size() > limit) {
    ++dropped_;
    return;
  }
  waiting_ += point;
  ends_.push_back(written_ + waiting_.size());
}

std::optional<std::string> LogSink::flush() {
  size_t done = 0;
  int error = 0;
  while (done < waiting_.size() && error == 0) {
    const ssize_t written = ::write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  waiting_.erase(0, done);
  written_ += done;
  while (!ends_.empty() && ends_.front() <= written_) ends_.pop_front();
  if (error == EAGAIN) return std::nullopt;  // the reader of a pipe is slow
  const bool was_failing = std::exchange(failing_, error != 0);
  if (was_failing == failing_) return std::nullopt;
  return failing_ ? fmt::format("{}: cannot write {}: {}; points are kept in memory until the file is writable again",
                                key_, path_, std::strerror(error))
                  : fmt::format("{}: {} is writable again", key_, path_);
}

bool LogSink::can_be_written_within(std::chrono::milliseconds time) const {
  if (!is_pipe_) return false;  // a file has been tried already
  pollfd pipe{.fd = fd_, .events = POLLOUT, .revents = 0};
  return ::poll(&pipe, 1, static_cast<int>(time.count())) > 0;
}

void check_log_folder(std::string_view key, const std::string& folder) {
  make_folder(key, folder, folder);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) cannot_write(key, folder, std::strerror(errno));
}

bool is_same_file(const std::string& a, const std::string& b) {
  return !a.empty() && formats::resolved_path(a) == formats::resolved_path(b);
}

}  // namespace runner::train
