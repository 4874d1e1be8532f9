#include "store/store_lock.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/signals_blocked.h"
#include "store/process.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRefresh{10};
constexpr std::chrono::milliseconds kShortestNap{10}, kNotice{1'000};

fs::path lock_of(const fs::path& store) {
  std::error_code ignored;
  return fs::weakly_canonical(store, ignored).string() + ".lock";
}

int64_t modified_ms(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
}

// The contents of a lock file: who has it. `number` makes each one different.
std::string text_of(const Process& process, int64_t number) {
  return json::line(json::Object{{"host", process.host},
                                 {"pid", process.pid},
                                 {"start_ticks", process.start_ticks},
                                 {"boot_id", process.boot_id},
                                 {"pid_namespace", process.pid_namespace},
                                 {"number", number}});
}

Process process_of(const std::string& text) {
  const json::Value document = json::parse(text);
  const auto number = [&](const char* key) { return json::integer_of(json::member(document, key)).value_or(-1); };
  const auto word = [&](const char* key) { return json::text_of(json::member(document, key)); };
  return {word("host"), word("boot_id"), word("pid_namespace"), number("pid"), number("start_ticks")};
}

// A lock file that exists.
struct Found {
  std::string text;  // empty if it was removed or is still being written
  int64_t touched_ms = 0;
};

std::optional<Found> read_lock(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return Found{read_file(file).value_or(""), modified_ms(status)};
}

// Writes everything. Returns errno, or 0.
int write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// Of link(2), where there are no hard links.
bool means_no_hard_links(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == EMLINK || error == ENOSYS;
}

// The folder's files of this lock that processes use for a moment have such a part in their names.
constexpr std::string_view kCandidate = ".candidate.", kStale = ".stale.";

// A name that no other process uses, also in containers that have equal host names and pids.
std::string unique_suffix() {
  std::random_device random;
  return fmt::format("{}.{}.{:08x}{:08x}", this_process().host, this_process().pid, random(), random());
}

// Removes what processes that were killed have left. Others may still use files that are younger than a minute.
void remove_left_files(const fs::path& lock, int64_t now_ms) {
  constexpr int64_t kOldMs = 60'000;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(lock), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_left = name.starts_with(lock.filename().string() + std::string(kCandidate)) ||
                         name.starts_with(lock.filename().string() + std::string(kStale));
    struct stat status {};
    if (is_left && ::lstat(entry.path().c_str(), &status) == 0 && now_ms - modified_ms(status) > kOldMs)
      ::unlink(entry.path().c_str());
  }
}

// A file of this process beside the lock. link(2) makes it the lock. Its time is that of the file system's clock.
class Candidate {
 public:
  Candidate(const fs::path& lock, const std::string& text)
      : path_(fmt::format("{}{}{}", lock.string(), kCandidate, unique_suffix())) {
    fd_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    error_ = errno;
    if (fd_ < 0) return;
    error_ = write_text(fd_, text);
    if (::fsync(fd_) != 0 && error_ == 0) error_ = errno;
  }
  ~Candidate() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  int error() const { return error_; }  // errno; 0 if it was written

  // Returns 0 if it is the lock now, EEXIST if another process has the lock, else errno. A network file system may
  // repeat a request that had succeeded and then report that the lock exists.
  int become(const fs::path& lock, const std::string& text) const {
    if (::link(path_.c_str(), lock.c_str()) == 0) return 0;
    if (errno == EEXIST) return read_file(lock) == text ? 0 : EEXIST;
    return means_no_hard_links(errno) ? create_lock(lock, text) : errno;
  }

  int64_t now_ms() const {
    struct stat status {};
    ::futimens(fd_, nullptr);
    return ::fstat(fd_, &status) == 0 ? modified_ms(status) : 0;
  }

 private:
  // For a file system without hard links. Creating a file is atomic there, but not that it has contents. Returns errno.
  static int create_lock(const fs::path& lock, const std::string& text) {
    const int fd = ::open(lock.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    int error = write_text(fd, text);
    if (::close(fd) != 0 && error == 0) error = errno;
    if (error != 0) ::unlink(lock.c_str());
    return error;
  }

  const fs::path path_;
  int fd_ = -1;
  int error_ = 0;
};

// Another process may have removed the stale lock and made its own meanwhile. That one is put back.
void remove_stale(const fs::path& lock, const std::string& text, const fs::path& aside) {
  if (::rename(lock.c_str(), aside.c_str()) != 0) return;
  if (read_file(aside) != text) ::link(aside.c_str(), lock.c_str());
  ::unlink(aside.c_str());
}

[[noreturn]] void fail_locked(const fs::path& store, const fs::path& lock, const std::optional<Found>& found) {
  const Process process = process_of(found ? found->text : "");
  const std::string owner =
      process.host.empty() ? "another process" : fmt::format("process {} on {}", process.pid, process.host);
  throw SqliteError::busy(
      fmt::format("the store {} is locked by {}; wait for that process or stop it, then try again; if it "
                  "no longer exists, remove {}",
                  store.string(), owner, lock.string()));
}

// Calls `attempt` until it returns true. After one second, calls the lock notice.
template <class Attempt>
void retry(const fs::path& store, const fs::path& lock, std::chrono::milliseconds limit, Attempt attempt) {
  const auto start = Clock::now();
  bool is_noticed = false;
  for (auto nap = kShortestNap; !attempt(); nap = std::min(2 * nap, kLockInterval)) {
    const auto waited = Clock::now() - start;
    if (waited >= limit) fail_locked(store, lock, read_lock(lock));
    if (waited >= kNotice && !std::exchange(is_noticed, true)) notice_lock(store);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace

StoreLock::Attempt StoreLock::acquire(const fs::path& store, std::chrono::milliseconds limit) {
  static std::atomic<int64_t> count = 0;
  const int64_t number = ++count;
  const fs::path lock = lock_of(store);
  const std::string text = text_of(this_process(), number);
  const Candidate candidate(lock, text);
  if (candidate.error() != 0) return {nullptr, candidate.error()};
  int error = 0;
  retry(store, lock, limit, [&] {
    error = candidate.become(lock, text);
    if (error != EEXIST) return true;
    const std::optional<Found> found = read_lock(lock);
    if (found && !is_running(process_of(found->text), found->touched_ms, candidate.now_ms()))
      remove_stale(lock, found->text, fmt::format("{}{}{}", lock.string(), kStale, unique_suffix()));
    return false;
  });
  if (error != 0) return {nullptr, error};
  std::unique_ptr<StoreLock> held(new StoreLock(lock, text));
  remove_left_files(lock, candidate.now_ms());
  return {std::move(held), 0};
}

void StoreLock::wait_until_free(const fs::path& store, std::chrono::milliseconds limit) {
  const fs::path lock = lock_of(store);
  retry(store, lock, limit, [&] {
    const std::optional<Found> found = read_lock(lock);
    return !found || !is_running(process_of(found->text), found->touched_ms, found->touched_ms);
  });
}

StoreLock::StoreLock(fs::path file, std::string owner) : file_(std::move(file)), owner_(std::move(owner)) {
  const SignalsBlocked blocked;
  refresher_ = std::thread([this] { keep_fresh(); });
}

StoreLock::~StoreLock() {
  {
    const std::lock_guard guard(mutex_);
    is_released_ = true;
  }
  released_.notify_all();
  refresher_.join();
  if (is_held()) ::unlink(file_.c_str());
}

bool StoreLock::is_held() const {
  return read_file(file_) == owner_;
}

void StoreLock::keep_fresh() {
  std::unique_lock guard(mutex_);
  while (!released_.wait_for(guard, kRefresh, [this] { return is_released_; }))
    if (is_held()) ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
}

}  // namespace runner::store
