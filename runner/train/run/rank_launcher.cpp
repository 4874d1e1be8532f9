#include "runner/train/run/rank_launcher.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/shared_memory.h"
#include "backends/runtime/descriptor.h"
#include "schema/base/error.h"
#include "schema/base/signal_set.h"
#include "schema/base/signals_blocked.h"
#include "schema/base/system_limits.h"

extern char** environ;

namespace runner::train {
namespace {

using backends::Descriptor;
using backends::SharedMemory;

constexpr int kTransportDescriptor = 3, kOrdersDescriptor = 4;  // in a started process

// Raises the limit of open files as far as permitted: each process needs a descriptor.
void allow_files(int processes) {
  constexpr rlim_t kOthers = 256;
  const rlim_t needed = static_cast<rlim_t>(processes) + kOthers;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(limit.rlim_max, needed);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct Child {
  int rank;
  pid_t pid;
  Descriptor handle;  // readable once the process has ended
  bool ended = false;
};

struct End {
  int status = 0;
  rusage usage{};
};

// Waits for a process to end and reaps it.
End wait_for(pid_t pid) {
  End end;
  while (::wait4(pid, &end.status, 0, &end.usage) < 0 && errno == EINTR) {
  }
  return end;
}

// EMFILE: each process needs a descriptor.
void check_started(int rank, int error) {
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start the process of rank {}: {}; {}", rank, system_reason(error),
            error == EMFILE ? "use a smaller num_processes" : process_limits());
}

// Returns errno after a failed duplication. EINVAL: the smallest number asked for exceeds the limit of open files.
int duplication_error() {
  return errno == EINVAL ? EMFILE : errno;
}

// Starts `program` with both files at fixed descriptors. Returns 0 or an errno value. Signals of the terminal
// and to the process group are blocked, since rank 0 handles them.
int spawn(const std::string& program, const std::vector<std::string>& words, const Descriptor& transport,
          const Descriptor& orders, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, transport.number(), kTransportDescriptor);
  ::posix_spawn_file_actions_adddup2(&actions, orders.number(), kOrdersDescriptor);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const sigset_t blocked = signal_set({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  ::posix_spawnattr_setsigmask(&attributes, &blocked);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

// Describes how a process ended.
std::string fate_of(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
}

}  // namespace

// Shared memory with the stop flag, not 0 if the other ranks are to stop, followed by the job as zero-terminated text.
class RankOrders {
 public:
  explicit RankOrders(std::string_view job) : memory_(kText + job.size() + 1) {
    new (memory_.bytes().data()) std::atomic<int>(0);
    std::memcpy(memory_.bytes().data() + kText, job.data(), job.size());
  }
  // Maps the memory of rank 0.
  explicit RankOrders(int descriptor) : memory_(SharedMemory::adopt(descriptor)) {}

  std::atomic<int>& stop() const { return *reinterpret_cast<std::atomic<int>*>(memory_.bytes().data()); }
  const char* job() const { return reinterpret_cast<const char*>(memory_.bytes().data() + kText); }
  int descriptor() const { return memory_.descriptor(); }

 private:
  static constexpr size_t kText = 64;
  static_assert(std::atomic<int>::is_always_lock_free);

  const SharedMemory memory_;
};

// ---- rank 0 --------------------------------------------------------------------------------------------------------

class RankLauncher::Impl {
 public:
  Impl(int size, const Options& options) : options_(options), orders_(options.job) {
    allow_files(size);
    children_.reserve(static_cast<size_t>(size));
    try {
      for (int rank = 1; rank < size && !stopped_at_start_; ++rank)
        asked_to_stop() ? stop_at_start() : start(rank, size);
      std::vector<pollfd> handles;
      for (const Child& child : children_) handles.push_back({child.handle.number(), POLLIN, 0});
      const SignalsBlocked blocked;
      watcher_ = std::thread([this, handles = std::move(handles)]() mutable { watch(handles); });
    } catch (...) {
      abandon_all();
      throw;
    }
  }

  ~Impl() {
    end_all();
    watcher_.join();
  }

  bool begin() {
    const std::lock_guard lock(mutex_);
    begun_ = !stopped_at_start_;
    return begun_;
  }

  bool stopped_at_start() const {
    const std::lock_guard lock(mutex_);
    return stopped_at_start_;
  }

  bool lost_one() const {
    const std::lock_guard lock(mutex_);
    return lost_one_;
  }

  void finish() {
    constexpr auto kPatience = std::chrono::seconds(10);
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kPatience, [this] {
      return std::all_of(children_.begin(), children_.end(), [](const Child& child) { return child.ended; });
    });
  }

 private:
  void start(int rank, int size) {
    // Duplicate both first to descriptors that spawn() does not assign; otherwise one could be overwritten by the
    // other.
    const Descriptor transport(::fcntl(options_.descriptor, F_DUPFD_CLOEXEC, kOrdersDescriptor + 1));
    check_started(rank, transport.number() < 0 ? duplication_error() : 0);
    const Descriptor orders(::fcntl(orders_.descriptor(), F_DUPFD_CLOEXEC, kOrdersDescriptor + 1));
    check_started(rank, orders.number() < 0 ? duplication_error() : 0);
    std::vector<std::string> words{"runner", kRankWord, std::to_string(rank), std::to_string(size),
                                   std::to_string(::getpid())};
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    pid_t pid = 0;
    check_started(rank, spawn(options_.program, words, transport, orders, pid));
    children_.push_back({rank, pid, Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))});
    check_started(rank, children_.back().handle.number() < 0 ? errno : 0);
  }

  // Before the watcher thread runs.
  void abandon_all() {
    for (const Child& child : children_) {
      ::kill(child.pid, SIGKILL);
      wait_for(child.pid);
    }
  }

  bool asked_to_stop() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed) > 0; }

  // The training loops of the other ranks read this flag. Before they run, it ends the wait for processes.
  void pass_on_stop() {
    orders_.stop().store(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (!begun_ && !ending_) stop_at_start();
  }

  void stop_at_start() {
    stopped_at_start_ = true;
    options_.on_stop_at_start();
  }

  // Runs until all processes have ended. `handles`: those of the children.
  void watch(std::vector<pollfd>& handles) {
    constexpr int kLookMs = 50;
    bool looks = options_.stop != nullptr;
    for (size_t running = children_.size(); running > 0 || (looks && asked_to_stop());) {
      if (looks && asked_to_stop()) {
        pass_on_stop();
        looks = false;
        continue;
      }
      if (::poll(handles.data(), handles.size(), looks ? kLookMs : -1) < 0 && errno != EINTR) return;
      for (size_t i = 0; i < children_.size(); ++i) {
        if (handles[i].revents == 0) continue;
        handles[i] = {-1, 0, 0};
        --running;
        reap(children_[i]);
      }
    }
  }

  void reap(Child& child) {
    const auto [status, usage] = wait_for(child.pid);
    const std::lock_guard lock(mutex_);
    child.ended = true;
    ended_.notify_all();
    if (ending_) return;
    lost_one_ |= WIFSIGNALED(status);
    options_.on_end({child.rank, fate_of(status), usage.ru_maxrss / 1024});
  }

  void end_all() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const Child& child : children_)
      if (!child.ended) ::syscall(SYS_pidfd_send_signal, child.handle.number(), SIGKILL, nullptr, 0);
  }

  const Options options_;
  const RankOrders orders_;
  std::vector<Child> children_;
  std::condition_variable ended_;
  mutable std::mutex mutex_;  // guards the members below and Child::ended
  bool ending_ = false;       // processes are being killed on purpose
  bool begun_ = false, stopped_at_start_ = false, lost_one_ = false;
  std::thread watcher_;
};

RankLauncher::RankLauncher(int size, const Options& options) : impl_(std::make_unique<Impl>(size, options)) {}
RankLauncher::~RankLauncher() = default;

bool RankLauncher::begin() {
  return impl_->begin();
}

bool RankLauncher::stopped_at_start() const {
  return impl_->stopped_at_start();
}

bool RankLauncher::lost_one() const {
  return impl_->lost_one();
}

void RankLauncher::finish() {
  impl_->finish();
}

// ---- the other ranks -----------------------------------------------------------------------------------------------

LaunchedRank::LaunchedRank(std::span<const std::string> words) {
  constexpr size_t kOwnWords = 3;  // rank, size, process of rank 0
  RUN_CHECK(words.size() >= kOwnWords, ErrorKind::kUsage, "{} is for runner itself", kRankWord);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != std::atoi(words[2].c_str())) ::_exit(1);
  rank_ = std::atoi(words[0].c_str());
  size_ = std::atoi(words[1].c_str());
  arguments_.assign(words.begin() + kOwnWords, words.end());
  orders_ = std::make_unique<RankOrders>(kOrdersDescriptor);
}

LaunchedRank::~LaunchedRank() = default;

int LaunchedRank::descriptor() const {
  return kTransportDescriptor;
}

std::string LaunchedRank::job() const {
  return orders_->job();
}

const std::atomic<int>& LaunchedRank::stop() const {
  return orders_->stop();
}

}  // namespace runner::train
