// The ranks of a run that mpirun or srun has started as processes, on one or several hosts.
//
// The processes are connected by MPI, but ranks of one host use shared memory: on a single host they behave as if rank
// 0 had started them. Ranks are numbered host by host, hosts by their lowest rank of MPI. Not thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/hosts_group.h"
#include "backends/dist/mpi/mpi_network.h"
#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"
#include "runner/train/run/process_info.h"
#include "runner/train/run/process_watch.h"

namespace runner::train {

class MpiRanks {
 public:
  struct Options {
    std::string module;   // of the MPI library; see mpi_modules()
    int processes;        // that the launcher has started; 0 if it does not tell
    std::string program;  // version and build, the same in all processes
    std::string command;  // the command line, the same in all processes
  };

  // Connects to all processes. Throws Error(kUsage) if MPI knows another number of processes, or if they differ in
  // program, command or the CPU features that kernels depend on; then on rank 0, and RankError on the others.
  explicit MpiRanks(const Options& options);
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const { return network_.rank(); }
  int size() const { return network_.size(); }
  // Core numbers of each rank: those that its launcher gave it, or its share if ranks were given the same cores.
  const std::vector<std::vector<int>>& cores() const { return cores_; }
  // Warnings about core binding; empty if there are none.
  std::vector<std::string> warnings() const { return binding_warnings(processes_info_, hosts_); }

  // Returns the job of rank 0 on all ranks; `mine` is empty on the others. These throw RankError if rank 0 has no job
  // or has ended, and Error(kInterrupted) if `stop` becomes positive. Call once.
  std::string share_job(std::string_view mine, const std::atomic<int>& stop);
  // Returns the group of all ranks for a run. Collective; call once. `shares_memory`: with symmetric memory if there is
  // a single host. Throws Error(kRun), and tells the other ranks.
  backends::ProcessGroup& begin_run(std::chrono::milliseconds timeout, bool shares_memory);
  // Whether the first failure of the run is the loss of a process or a host.
  bool has_lost_process() const;
  // Tells the other ranks that this one has failed.
  void fail(std::string_view reason) noexcept;

  // Leaves the other ranks. Waits until rank 0 does the same, at most for the timeout of the run, and from 10 to 60 s
  // if the run has failed; then for all others. If they do not, because they are dead or stuck, exits this process with
  // `exit_code`, or 1 in place of 0, after 20 s, or 3 s if the run has failed.
  void end(int exit_code) noexcept;

 private:
  class StartGroup;

  const backends::RankHost& here() const;
  backends::ProcessGroup* newest_group();
  void exchange_process_info(const Options& options);
  void watch_processes();
  void report_end_of(int rank);
  void check_job(std::chrono::steady_clock::time_point start, const std::atomic<int>& stop) const;
  void send_job(uint64_t bytes, std::string_view job);
  std::string received_job(const std::atomic<int>& stop);
  std::unique_ptr<backends::SharedMemory> local_memory(int local_rank);
  int own_cores() const;
  void wait_for_rank_0(std::chrono::milliseconds limit);

  backends::MpiNetwork network_;
  std::unique_ptr<StartGroup> start_;  // until the run begins
  std::mutex start_mutex_;             // guards start_ against watch_
  std::vector<ProcessInfo> processes_info_;
  std::vector<backends::RankHost> hosts_;
  std::vector<std::vector<int>> cores_;
  bool is_job_shared_ = false;
  std::chrono::milliseconds timeout_ = std::chrono::seconds(600);
  std::unique_ptr<backends::SharedMemory> memory_;
  std::optional<backends::SharedMemoryGroup> local_;
  std::optional<backends::HostsGroup> all_;
  std::atomic<backends::ProcessGroup*> group_ = nullptr;  // of the run
  std::atomic<int> lost_rank_ = -1;                       // whose process has ended
  std::optional<ProcessWatch> watch_;                     // uses the groups
};

}  // namespace runner::train
