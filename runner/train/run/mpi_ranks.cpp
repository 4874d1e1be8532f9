#include "runner/train/run/mpi_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "backends/dist/rank_error.h"
#include "runner/train/step/gathering.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

using backends::HostsGroup;
using backends::Network;
using backends::ProcessGroup;
using backends::RankError;
using backends::RankHost;
using backends::SharedMemory;
using backends::SharedMemoryGroup;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kNoJob = ~uint64_t{0};  // in place of its size
// Rank 0 reads a recipe meanwhile.
constexpr auto kLongestWaitForJob = std::chrono::minutes(10);

std::vector<RankHost> each_rank_alone(int size) {
  std::vector<RankHost> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back({fmt::format("of rank {}", rank), rank, 1});
  return hosts;
}

}  // namespace

// A group without shared memory, before ranks know their hosts.
class MpiRanks::StartGroup {
 public:
  explicit StartGroup(Network& network)
      : memory_(SharedMemoryGroup::memory_bytes(1)),
        alone_(memory_, 0, 1, {}),
        group_(network, alone_, each_rank_alone(network.size()), Network::Channel::kFailureAtStart) {}

  HostsGroup& group() { return group_; }

 private:
  SharedMemory memory_;
  SharedMemoryGroup alone_;
  HostsGroup group_;
};

MpiRanks::MpiRanks(const Options& options) : network_(options.module) {
  try {
    RUN_CHECK(options.processes == 0 || network_.size() == options.processes, ErrorKind::kUsage,
              "the launcher started {} processes, but {} connects {}: each would train the whole recipe; start the "
              "program with the launcher of that library",
              options.processes, network_.version(), network_.size());
    start_ = std::make_unique<StartGroup>(network_);
    exchange_process_info(options);
  } catch (const Error& error) {  // on all ranks
    const bool is_reported_here = network_.rank() == 0;
    is_job_shared_ = true;  // no rank receives it
    end(exit_code(error.kind()));
    if (is_reported_here) throw;
    throw RankError(error.kind(), error.message());
  }
  start_.reset();
  const std::vector<int> order = order_by_machine(processes_info_);
  std::vector<ProcessInfo> ordered;
  for (const int i : order) ordered.push_back(processes_info_[static_cast<size_t>(i)]);
  processes_info_ = std::move(ordered);
  network_.reorder(order);
  hosts_ = hosts_of(processes_info_);
  cores_ = cores_of(processes_info_);
  start_ = std::make_unique<StartGroup>(network_);
  watch_processes();
}

MpiRanks::~MpiRanks() = default;

void MpiRanks::exchange_process_info(const Options& options) {
  processes_info_ =
      gather_values(info_of_this_process(options.program, options.command), start_->group(), {"the start"});
  check_same(processes_info_);
}

const RankHost& MpiRanks::here() const {
  return *std::ranges::find_if(hosts_, [&](const RankHost& host) { return rank() < host.first + host.count; });
}

// ---- failures ------------------------------------------------------------------------------------------------------

ProcessGroup* MpiRanks::newest_group() {
  if (group_ != nullptr) return group_;
  return start_ != nullptr ? &start_->group() : nullptr;
}

void MpiRanks::fail(std::string_view reason) noexcept {
  if (ProcessGroup* const group = newest_group()) group->fail(reason, {});
}

// The other ranks of this host, since the processes of other hosts cannot be seen.
void MpiRanks::watch_processes() {
  const RankHost host = here();
  std::vector<int64_t> pids;
  for (int other = host.first; other < host.first + host.count; ++other)
    pids.push_back(other == rank() ? 0 : processes_info_[static_cast<size_t>(other)].pid);
  watch_.emplace(pids, [this, host](size_t index) { report_end_of(host.first + static_cast<int>(index)); });
}

void MpiRanks::report_end_of(int rank) {
  lost_rank_ = rank;
  ProcessGroup* const group = group_;
  if (group == nullptr) {  // those that wait for the job look at lost_rank_
    const std::lock_guard lock(start_mutex_);
    if (start_ != nullptr)
      start_->group().fail_by_loss(fmt::format("the process of rank {} has ended before the run began", rank));
    return;
  }
  const int local_rank = rank - here().first;
  const std::string reason = fmt::format("the process of {} has ended; it {}", local_->name_of(local_rank),
                                         local_->newest_call(local_rank).as_last_call());
  group == &*local_ ? local_->fail_by_loss(reason) : all_->fail_by_loss(reason);
}

bool MpiRanks::has_lost_process() const {
  if (group_ == nullptr) return false;
  return group_ == &*local_ ? local_->has_failed_by_loss() : all_->has_failed_by_loss();
}

// ---- the job -------------------------------------------------------------------------------------------------------

void MpiRanks::check_job(Clock::time_point start, const std::atomic<int>& stop) const {
  RUN_CHECK(stop <= 0, ErrorKind::kInterrupted, "interrupted before the run began");
  if (const int lost = lost_rank_; lost >= 0)
    throw RankError(ErrorKind::kRun, fmt::format("the process of rank {} has ended before the run began", lost));
  RUN_CHECK(Clock::now() - start < kLongestWaitForJob, ErrorKind::kRun, "rank 0 has sent no run within 10 min");
}

// Not a collective: if there is no job, no message may be left over.
void MpiRanks::send_job(uint64_t bytes, std::string_view job) {
  const auto start = Clock::now();
  const std::atomic<int> never = 0;
  const auto send = [&](int to, std::span<const std::byte> part) {
    Network::Request request = network_.send(to, Network::Channel::kStart, part);
    for (; !network_.is_done(request); std::this_thread::sleep_for(std::chrono::microseconds(100)))
      check_job(start, never);
  };
  for (int to = 1; to < size(); ++to) {
    send(to, std::as_bytes(std::span(&bytes, 1)));
    for (size_t at = 0; at < job.size(); at += Network::kMaxMessage)
      send(to, std::as_bytes(std::span(job.substr(at, Network::kMaxMessage))));
  }
}

std::string MpiRanks::received_job(const std::atomic<int>& stop) {
  const auto start = Clock::now();
  const auto receive = [&](std::span<std::byte> part) {
    Network::Request request = network_.receive(0, Network::Channel::kStart, part);
    for (; !network_.is_done(request); std::this_thread::sleep_for(std::chrono::microseconds(100)))
      check_job(start, stop);
  };
  const auto bytes = std::make_shared<uint64_t>();
  network_.keep(bytes);
  receive(std::as_writable_bytes(std::span(bytes.get(), 1)));
  if (*bytes == kNoJob) throw RankError(ErrorKind::kRun, "rank 0 has no run");
  const auto job = std::make_shared<std::string>(*bytes, '\0');
  network_.keep(job);
  for (size_t at = 0; at < *bytes; at += Network::kMaxMessage)
    receive(std::as_writable_bytes(std::span(*job).subspan(at, std::min(Network::kMaxMessage, *bytes - at))));
  return *job;
}

std::string MpiRanks::share_job(std::string_view mine, const std::atomic<int>& stop) {
  is_job_shared_ = true;
  if (rank() != 0) return received_job(stop);
  send_job(mine.size(), mine);
  return std::string(mine);
}

// ---- the run -------------------------------------------------------------------------------------------------------

// 0 if ranks of this host share a core.
int MpiRanks::own_cores() const {
  const RankHost& host = here();
  const bool has_own = static_cast<int>(cores_in_use(processes_info_, host)) >= host.count;
  return has_own ? static_cast<int>(cores_[static_cast<size_t>(rank())].size()) : 0;
}

// The first rank of a host makes the memory; the others open it.
std::unique_ptr<SharedMemory> MpiRanks::local_memory(int local_rank) {
  const RankHost& host = here();
  HostsGroup& group = start_->group();
  std::unique_ptr<SharedMemory> memory;
  if (local_rank == 0) memory = std::make_unique<SharedMemory>(SharedMemoryGroup::memory_bytes(host.count));
  const std::vector<std::string> descriptors =
      group.gather_objects(memory ? std::to_string(memory->descriptor()) : "", {"shared memory"});
  if (local_rank != 0) {
    const auto leader = static_cast<size_t>(host.first);
    memory.reset(new SharedMemory(SharedMemory::open_of(processes_info_[leader].pid, descriptors[leader])));
  }
  group.barrier({"shared memory"});
  return memory;
}

ProcessGroup& MpiRanks::begin_run(std::chrono::milliseconds timeout, bool shares_memory) {
  timeout_ = timeout;
  const RankHost& host = here();
  const int local_rank = rank() - host.first, cores = own_cores();
  try {
    memory_ = local_memory(local_rank);
    const bool spins = host.count <= static_cast<int>(cores_in_use(processes_info_, host));
    local_.emplace(*memory_, local_rank, host.count,
                   SharedMemoryGroup::Options{.timeout = timeout,
                                              .spin = spins,
                                              .first_rank = host.first,
                                              .host = hosts_.size() > 1 ? host.name : std::string(),
                                              .cores = cores});
    const bool is_alone = hosts_.size() == 1 && shares_memory;
    if (!is_alone) all_.emplace(network_, *local_, hosts_);
    group_ = is_alone ? static_cast<ProcessGroup*>(&*local_) : &*all_;
  } catch (const Error& error) {
    fail(fmt::format("rank {} on host {}: {}", rank(), host.name, error.text()));
    throw;
  }
  {
    const std::lock_guard lock(start_mutex_);
    start_.reset();
  }
  if (const int lost = lost_rank_; lost >= 0) report_end_of(lost);
  return *group_;
}

// ---- the end -------------------------------------------------------------------------------------------------------

// Rank 0 may still write its last state. If another rank exited before, the launcher could end rank 0, too.
void MpiRanks::wait_for_rank_0(std::chrono::milliseconds limit) {
  constexpr auto kSendLimit = std::chrono::seconds(3);
  const auto message = std::make_shared<std::byte>();
  network_.keep(message);
  const std::span bytes(message.get(), 1);
  std::vector<Network::Request> requests;
  if (rank() != 0) requests.push_back(network_.receive(0, Network::Channel::kEnd, bytes));
  for (int to = 1; rank() == 0 && to < size(); ++to)
    requests.push_back(network_.send(to, Network::Channel::kEnd, bytes));
  const auto end = Clock::now() + (rank() == 0 ? kSendLimit : limit);
  for (Network::Request& request : requests)
    while (!network_.is_done(request) && lost_rank_ != 0 && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void MpiRanks::end(int exit_code) noexcept {
  try {
    if (rank() == 0 && !is_job_shared_) send_job(kNoJob, {});
    const bool has_failed = group_ == nullptr || group_.load()->has_failed();
    using std::chrono::seconds;
    wait_for_rank_0(has_failed ? std::clamp<std::chrono::milliseconds>(timeout_, seconds(10), seconds(60)) : timeout_);
    watch_.reset();
    const Deadline deadline(has_failed ? std::chrono::seconds(3) : std::chrono::seconds(20), exit_code);
    group_ = nullptr;
    all_.reset();
    start_.reset();
    network_.end();
  } catch (const std::exception&) {  // a process is gone
    std::_Exit(exit_code != 0 ? exit_code : 1);
  }
}

}  // namespace runner::train
