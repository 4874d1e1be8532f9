#include "runner/train/run/process_watch.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "schema/base/system_limits.h"

namespace runner::train {
namespace {

constexpr size_t kNone = ~size_t{0};

void watch_processes(std::vector<pollfd>& polled, size_t ended, const std::function<void(size_t)>& on_end) {
  if (ended != kNone) return on_end(ended);
  while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
  }
  if (polled[0].revents != 0) return;
  for (size_t i = 1; i < polled.size(); ++i)
    if (polled[i].revents != 0) return on_end(i - 1);
}

}  // namespace

ProcessWatch::ProcessWatch(const std::vector<int64_t>& pids, std::function<void(size_t index)> on_end)
    : stop_(::eventfd(0, EFD_CLOEXEC)) {
  RUN_CHECK(stop_.number() >= 0, ErrorKind::kRun, "cannot watch processes: {}", system_reason(errno));
  std::vector<pollfd> polled{{stop_.number(), POLLIN, 0}};
  size_t ended = kNone;
  for (size_t i = 0; i < pids.size(); ++i) {
    const auto pid = static_cast<pid_t>(pids[i]);
    handles_.emplace_back(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
    if (pid > 0 && handles_.back().number() < 0) {
      RUN_CHECK(errno == ESRCH, ErrorKind::kRun, "cannot watch process {}: {}", pid, system_reason(errno));
      ended = i;
    }
    polled.push_back({handles_.back().number(), POLLIN, 0});
  }
  const SignalsBlocked blocked;
  thread_ = std::thread([polled = std::move(polled), ended, on_end = std::move(on_end)]() mutable {
    watch_processes(polled, ended, on_end);
  });
}

ProcessWatch::~ProcessWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.number(), &one, sizeof one);
  thread_.join();
}

Deadline::Deadline(std::chrono::milliseconds limit, int exit_code) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this, limit, exit_code] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [this] { return is_over_; })) std::_Exit(exit_code != 0 ? exit_code : 1);
  });
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace runner::train
