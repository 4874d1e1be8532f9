#include "runner/train/run/mpi_ranks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
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
#include "backends/runtime/affinity.h"
#include "backends/runtime/cpu_features.h"
#include "backends/runtime/descriptor.h"
#include "runner/train/step/packing.h"
#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "schema/base/system_limits.h"
#include "store/process.h"

namespace runner::train {
namespace {

using backends::Descriptor;
using backends::HostsGroup;
using backends::ProcessGroup;
using backends::RankHost;
using backends::SharedMemory;
using backends::SharedMemoryGroup;

// Name of this host in place of its own. Ranks with different names share no memory, even on one machine.
constexpr const char* kHostVariable = "RUNNER_HOST";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string namespace_of(const char* link) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(link, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<size_t>(size)) : std::string();
}

// Number of cores that Slurm or the machine offers to all ranks of this host. Slurm may be configured to count more
// cores than the machine has.
int offered_cores() {
  const int of_job = std::atoi(environment("SLURM_CPUS_ON_NODE").c_str());
  const auto of_machine = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return of_job > 0 ? std::min(of_job, of_machine) : of_machine;
}

// What each process tells the others at the start.
struct Introduction {
  std::string host;     // name
  std::string machine;  // ranks with the same one can share memory
  int64_t pid = 0;
  std::vector<int> cores;
  int offered = 0;
  std::string program, command, kernels;
};

Introduction introduction_of_this(const MpiRanks::Options& options) {
  const store::Process& process = store::this_process();
  const std::string given = environment(kHostVariable);
  return {.host = given.empty() ? process.host : given,
          .machine = fmt::format("{} {} {} {}", process.boot_id, process.pid_namespace,
                                 namespace_of("/proc/self/ns/net"), given),
          .pid = process.pid,
          .cores = backends::usable_core_ids(),
          .offered = offered_cores(),
          .program = options.program,
          .command = options.command,
          .kernels = backends::cpu_features().to_string()};
}

std::string packed(const Introduction& mine) {
  std::string text;
  for (const std::string& each : {mine.host, mine.machine, mine.program, mine.command, mine.kernels})
    append(text, each);
  append_number(text, static_cast<double>(mine.pid));
  append_number(text, mine.offered);
  for (const int core : mine.cores) append_number(text, core);
  return text;
}

Introduction unpacked_introduction(std::string_view text) {
  Introduction found;
  for (std::string* each : {&found.host, &found.machine, &found.program, &found.command, &found.kernels})
    *each = take(text);
  found.pid = static_cast<int64_t>(take_number(text));
  found.offered = static_cast<int>(take_number(text));
  while (!text.empty()) found.cores.push_back(static_cast<int>(take_number(text)));
  return found;
}

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

// Ranks of the same machine follow each other, machines in the order of their first ranks.
std::vector<int> order_by_machine(const std::vector<Introduction>& all) {
  std::map<std::string, int> first;
  for (size_t i = 0; i < all.size(); ++i) first.emplace(all[i].machine, static_cast<int>(i));
  std::vector<int> order(all.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::ranges::stable_sort(order, {}, [&](int i) { return first.at(all[static_cast<size_t>(i)].machine); });
  return order;
}

std::vector<RankHost> hosts_of(const std::vector<Introduction>& all) {
  std::vector<RankHost> hosts;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].machine == all[i - 1].machine) {
      ++hosts.back().count;
    } else {
      hosts.push_back({all[i].host, static_cast<int>(i), 1});
    }
  }
  return hosts;
}

// Ranks of a host with the same cores divide them.
std::vector<std::vector<int>> cores_of(const std::vector<Introduction>& all) {
  std::vector<std::vector<int>> shares(all.size());
  std::map<std::pair<std::string, std::vector<int>>, std::vector<size_t>> same;
  for (size_t i = 0; i < all.size(); ++i) same[{all[i].machine, all[i].cores}].push_back(i);
  for (const auto& [key, ranks] : same) {
    const auto parts = backends::shares_of_cores(key.second, static_cast<int>(ranks.size()));
    for (size_t i = 0; i < ranks.size(); ++i) shares[ranks[i]] = parts[i];
  }
  return shares;
}

void check_same(const std::vector<Introduction>& all, std::string Introduction::*part, const char* what,
                const char* remedy) {
  for (size_t i = 1; i < all.size(); ++i)
    RUN_CHECK(all[i].*part == all[0].*part, ErrorKind::kUsage,
              "the processes have different {}: `{}` on host {}, `{}` on host {}; {}", what, all[0].*part, all[0].host,
              all[i].*part, all[i].host, remedy);
}

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
    const RankHost& host = here();
    const int local_rank = rank() - host.first;
    memory_ = local_memory(local_rank);
    first_.reset();
    const bool spins = host.count <= static_cast<int>(distinct_cores(host));
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
    const Deadline deadline(has_failed ? std::chrono::seconds(3) : std::chrono::seconds(20), exit_code);
    network_.end();
    has_ended_ = true;
  }

  int rank() const { return network_.rank(); }
  int size() const { return network_.size(); }
  const std::vector<RankHost>& hosts() const { return hosts_; }
  const std::vector<std::vector<int>>& cores() const { return cores_; }

  std::vector<std::string> warnings() const {
    std::vector<std::string> texts;
    for (const RankHost& host : hosts_) {
      const size_t bound = distinct_cores(host);
      const int offered = introductions_[static_cast<size_t>(host.first)].offered;
      if (static_cast<int>(bound) < offered)
        texts.push_back(
            fmt::format("host {} has {} cores, but its {} ranks are bound to {} of them; start them with "
                        "`mpirun --bind-to none`, `mpirun --map-by slot:PE={}` or `srun --cpus-per-task={}`",
                        host.name, offered, host.count, bound, std::max(1, offered / host.count),
                        std::max(1, offered / host.count)));
    }
    return texts;
  }

 private:
  static constexpr uint64_t kNoJob = ~uint64_t{0};  // in place of its size

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
    for (const std::string& text : first_->group().gather_objects(packed(introduction_of_this(options)), {"the start"}))
      introductions_.push_back(unpacked_introduction(text));
    check_same(introductions_, &Introduction::program, "programs", "install the same build on all hosts");
    check_same(introductions_, &Introduction::command, "command lines", "start all processes with the same one");
    check_same(introductions_, &Introduction::kernels, "CPUs",
               "their kernels round differently; use hosts of one kind");
  }

  const RankHost& here() const {
    return *std::ranges::find_if(hosts_, [&](const RankHost& host) { return rank() < host.first + host.count; });
  }

  size_t distinct_cores(const RankHost& host) const {
    std::set<int> cores;
    for (int i = 0; i < host.count; ++i) {
      const std::vector<int>& own = introductions_[static_cast<size_t>(host.first + i)].cores;
      cores.insert(own.begin(), own.end());
    }
    return cores.size();
  }

  // 0 if ranks of this host share a core.
  int own_cores() const {
    const RankHost& host = here();
    return static_cast<int>(distinct_cores(host)) < host.count
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
