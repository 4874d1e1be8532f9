#include "runner/train/run/mpi_ranks.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/dist/mpi/mpi_network.h"
#include "backends/dist/rank_error.h"
#include "backends/dist/shared_memory_group.h"
#include "backends/runtime/descriptor.h"
#include "runner/train/run/introduction.h"
#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "schema/base/system_limits.h"

namespace runner::train {
namespace {

using backends::Descriptor;
using backends::HostsGroup;
using backends::ProcessGroup;
using backends::RankHost;
using backends::SharedMemory;
using backends::SharedMemoryGroup;

std::vector<RankHost> each_rank_alone(int size) {
  std::vector<RankHost> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back({fmt::format("of rank {}", rank), rank, 1});
  return hosts;
}

// A group without shared memory, before ranks know their hosts.
class FirstGroup {
 public:
  explicit FirstGroup(backends::Network& network)
      : memory_(SharedMemoryGroup::memory_bytes(1)),
        alone_(memory_, 0, 1, {}),
        group_(network, alone_, each_rank_alone(network.size()), {}) {}

  HostsGroup& group() { return group_; }

 private:
  SharedMemory memory_;
  SharedMemoryGroup alone_;
  HostsGroup group_;
};

// Exits the process if the object still exists after `limit`. Then the launcher, or the limits of the other ranks, end
// these.
class Deadline {
 public:
  Deadline(std::chrono::milliseconds limit, int exit_code) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this, limit, exit_code] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, limit, [this] { return is_over_; })) std::_Exit(exit_code != 0 ? exit_code : 1);
    });
  }
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

// Calls `on_end` once when one of the processes has ended, on its own thread.
class ProcessWatch {
 public:
  using OnEnd = std::function<void(size_t index)>;

  // `pids`: of this host; 0: not watched.
  ProcessWatch(const std::vector<int64_t>& pids, OnEnd on_end) : stop_(::eventfd(0, EFD_CLOEXEC)) {
    std::vector<pollfd> polled{{stop_.number(), POLLIN, 0}};
    for (const int64_t pid : pids) {
      handles_.emplace_back(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)) : -1);
      polled.push_back({handles_.back().number(), POLLIN, 0});
    }
    const SignalsBlocked blocked;
    thread_ = std::thread([polled = std::move(polled), on_end = std::move(on_end)]() mutable {
      while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
      }
      if (polled[0].revents != 0) return;
      for (size_t i = 1; i < polled.size(); ++i)
        if (polled[i].revents != 0) return on_end(i - 1);
    });
  }
  ~ProcessWatch() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.number(), &one, sizeof one);
    thread_.join();
  }
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

 private:
  const Descriptor stop_;
  std::vector<Descriptor> handles_;
  std::thread thread_;
};

}  // namespace

class MpiRanks::Impl {
 public:
  explicit Impl(const Options& options) : network_(options.module) {
    try {
      RUN_CHECK(network_.size() == options.processes, ErrorKind::kUsage,
                "the launcher started {} processes, but {} connects {}: each would train the whole recipe; start the "
                "program with the launcher of that library",
                options.processes, network_.version(), network_.size());
      first_.emplace(network_);
      introduce(options);
      first_.reset();
    } catch (const Error& error) {  // on all ranks
      const bool is_reported_here = network_.rank() == 0;
      is_job_shared_ = true;  // nobody waits for it
      end(exit_code(error.kind()));
      if (is_reported_here) throw;
      throw backends::RankError(error.kind(), error.message());
    }
    std::vector<Introduction> ordered;
    const std::vector<int> order = order_by_machine(introductions_);
    for (const int i : order) ordered.push_back(introductions_[static_cast<size_t>(i)]);
    introductions_ = std::move(ordered);
    network_.reorder(order);
    hosts_ = hosts_of(introductions_);
    cores_ = cores_of(introductions_);
    first_.emplace(network_);
  }

  ~Impl() {
    if (!has_ended_) network_.abort(1);
  }

  std::string share_job(std::string_view mine) {
    is_job_shared_ = true;
    if (rank() != 0) return received_job();
    send_job(mine.size(), mine);
    return std::string(mine);
  }

  ProcessGroup& begin_run(std::chrono::milliseconds timeout, bool shares_memory) {
    timeout_ = timeout;
    const RankHost& host = here();
    const int local_rank = rank() - host.first;
    memory_ = local_memory(local_rank);
    first_.reset();
    const bool spins = host.count <= static_cast<int>(cores_in_use(introductions_, host));
    local_.emplace(*memory_, local_rank, host.count,
                   SharedMemoryGroup::Options{.timeout = timeout,
                                              .spin = spins,
                                              .first_rank = host.first,
                                              .host = hosts_.size() > 1 ? host.name : std::string(),
                                              .cores = own_cores()});
    if (hosts_.size() == 1 && shares_memory) {
      group_ = &*local_;
    } else {
      all_.emplace(network_, *local_, hosts_,
                   HostsGroup::Options{.timeout = timeout, .spin = spins, .cores = own_cores()});
      group_ = &*all_;
    }
    watch_others(host, local_rank);
    return *group_;
  }

  void end(int exit_code) {
    watch_.reset();
    if (first_ && !is_job_shared_ && rank() == 0) send_job(kNoJob, {});
    const bool has_failed = group_ == nullptr || group_->has_failed();
    all_.reset();
    first_.reset();
    take_leave(has_failed ? std::chrono::seconds(60) : timeout_);
    const Deadline deadline(has_failed ? std::chrono::seconds(3) : std::chrono::seconds(20), exit_code);
    network_.end();
    has_ended_ = true;
  }

  int rank() const { return network_.rank(); }
  int size() const { return network_.size(); }
  const std::vector<RankHost>& hosts() const { return hosts_; }
  const std::vector<std::vector<int>>& cores() const { return cores_; }

  std::vector<std::string> warnings() const { return binding_warnings(introductions_, hosts_); }

 private:
  static constexpr uint64_t kNoJob = ~uint64_t{0};  // in place of its size

  // Rank 0 may still write its last state. If another rank exited before, the launcher could end rank 0, too.
  void take_leave(std::chrono::milliseconds patience) {
    using Channel = backends::Network::Channel;
    constexpr auto kPatienceToTell = std::chrono::seconds(3);
    std::byte leave{};
    const std::span message(&leave, 1);
    std::vector<backends::Network::Ticket> tickets;
    if (rank() != 0) tickets.push_back(network_.receive(0, Channel::kEnd, message));
    for (int to = 1; rank() == 0 && to < size(); ++to) tickets.push_back(network_.send(to, Channel::kEnd, message));
    const auto end = std::chrono::steady_clock::now() + (rank() == 0 ? kPatienceToTell : patience);
    for (backends::Network::Ticket& ticket : tickets)
      while (!network_.is_done(ticket) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void finish(backends::Network::Ticket ticket) {
    while (!network_.is_done(ticket)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  // Not a collective: if there is no job, no message may be left over.
  void send_job(uint64_t bytes, std::string_view job) {
    using Channel = backends::Network::Channel;
    const auto send = [&](int to, std::span<const std::byte> part) {
      finish(network_.send(to, Channel::kStart, part));
    };
    for (int to = 1; to < size(); ++to) {
      send(to, std::as_bytes(std::span(&bytes, 1)));
      for (size_t at = 0; at < job.size(); at += backends::Network::kMaxMessage)
        send(to, std::as_bytes(std::span(job.substr(at, backends::Network::kMaxMessage))));
    }
  }

  std::string received_job() {
    using Channel = backends::Network::Channel;
    const auto receive = [&](std::span<std::byte> part) { finish(network_.receive(0, Channel::kStart, part)); };
    uint64_t bytes = 0;
    receive(std::as_writable_bytes(std::span(&bytes, 1)));
    if (bytes == kNoJob) throw backends::RankError(ErrorKind::kRun, "rank 0 has no run");
    std::string job(bytes, '\0');
    for (size_t at = 0; at < bytes; at += backends::Network::kMaxMessage)
      receive(std::as_writable_bytes(std::span(job).subspan(at, std::min(backends::Network::kMaxMessage, bytes - at))));
    return job;
  }

  void introduce(const Options& options) {
    for (const std::string& text :
         first_->group().gather_objects(packed(introduction_of_this(options.program, options.command)), {"the start"}))
      introductions_.push_back(unpacked_introduction(text));
    check_same(introductions_);
  }

  const RankHost& here() const {
    return *std::ranges::find_if(hosts_, [&](const RankHost& host) { return rank() < host.first + host.count; });
  }

  // 0 if ranks of this host share a core.
  int own_cores() const {
    const RankHost& host = here();
    return static_cast<int>(cores_in_use(introductions_, host)) < host.count
               ? 0
               : static_cast<int>(cores_[static_cast<size_t>(rank())].size());
  }

  // The first rank of a host makes the memory; the others open it through /proc.
  std::unique_ptr<SharedMemory> local_memory(int local_rank) {
    const RankHost& host = here();
    std::unique_ptr<SharedMemory> memory;
    if (local_rank == 0) memory = std::make_unique<SharedMemory>(SharedMemoryGroup::memory_bytes(host.count));
    HostsGroup& group = first_->group();
    const std::string mine = memory ? std::to_string(memory->descriptor()) : "";
    const std::vector<std::string> all = group.gather_objects(mine, {"shared memory"});
    if (local_rank != 0) {
      const auto leader = static_cast<size_t>(host.first);
      const std::string path = fmt::format("/proc/{}/fd/{}", introductions_[leader].pid, all[leader]);
      const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      if (descriptor < 0)
        group.fail(fmt::format("rank {} on host {} cannot open the shared memory of rank {}, {}: {}; set {} to another "
                               "name for each rank to do without",
                               rank(), host.name, host.first, path, system_reason(errno), kHostVariable),
                   {});
      group.throw_failure();
      memory.reset(new SharedMemory(SharedMemory::adopt(descriptor)));  // cannot be moved
    }
    group.barrier({"shared memory"});
    return memory;
  }

  void watch_others(const RankHost& host, int local_rank) {
    std::vector<int64_t> pids;
    for (int i = 0; i < host.count; ++i)
      pids.push_back(i == local_rank ? 0 : introductions_[static_cast<size_t>(host.first + i)].pid);
    watch_.emplace(pids, [this](size_t index) {
      const auto other = static_cast<int>(index);
      group_->fail(fmt::format("the process of {} has ended; it {}", local_->name_of(other),
                               local_->newest_call(other).as_last_call()),
                   {});
    });
  }

  backends::MpiNetwork network_;
  std::optional<FirstGroup> first_;  // until the run begins
  bool is_job_shared_ = false;
  std::chrono::milliseconds timeout_ = std::chrono::seconds(600);
  std::vector<Introduction> introductions_;
  std::vector<RankHost> hosts_;
  std::vector<std::vector<int>> cores_;
  std::unique_ptr<SharedMemory> memory_;
  std::optional<SharedMemoryGroup> local_;
  std::optional<HostsGroup> all_;
  ProcessGroup* group_ = nullptr;
  std::optional<ProcessWatch> watch_;  // uses the groups
  bool has_ended_ = false;
};

MpiRanks::MpiRanks(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
MpiRanks::~MpiRanks() = default;

int MpiRanks::rank() const {
  return impl_->rank();
}
int MpiRanks::size() const {
  return impl_->size();
}
const std::vector<RankHost>& MpiRanks::hosts() const {
  return impl_->hosts();
}
const std::vector<std::vector<int>>& MpiRanks::cores() const {
  return impl_->cores();
}
std::vector<std::string> MpiRanks::warnings() const {
  return impl_->warnings();
}
std::string MpiRanks::share_job(std::string_view mine) {
  return impl_->share_job(mine);
}
ProcessGroup& MpiRanks::begin_run(std::chrono::milliseconds timeout, bool shares_memory) {
  return impl_->begin_run(timeout, shares_memory);
}
void MpiRanks::end(int exit_code) {
  impl_->end(exit_code);
}

}  // namespace runner::train
