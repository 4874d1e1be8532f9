// The ranks of a run that mpirun or srun has started as processes, on one or several hosts.
//
// The processes are connected by MPI, but ranks of one host use shared memory: on a single host they behave as if rank
// 0 had started them. Ranks are numbered host by host, beginning with the host of MPI's rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/hosts_group.h"

namespace runner::train {

class MpiRanks {
 public:
  struct Options {
    std::string module;   // of the MPI library; see mpi_modules()
    int processes;        // that the launcher has started
    std::string program;  // version and build, the same in all processes
    std::string command;  // the command line, the same in all processes
  };

  // Connects to all processes. Throws Error(kUsage) if MPI knows another number of processes, or if they differ in
  // program, command or the CPU features that kernels depend on; then on all ranks.
  explicit MpiRanks(const Options& options);
  // Ends all processes if end() was not called.
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const;
  int size() const;
  const std::vector<backends::RankHost>& hosts() const;
  // Core numbers of each rank: the cores that its launcher gave it, or its share if ranks were given the same cores.
  const std::vector<std::vector<int>>& cores() const;
  // What is wrong with how the launcher has bound the ranks to cores; empty: nothing.
  std::vector<std::string> warnings() const;

  // Returns the job of rank 0 on all ranks; `mine` is empty on the others. Collective. Throws RankError if rank 0 has
  // none.
  std::string share_job(std::string_view mine);
  // Returns the group of all ranks for a run. Collective; call once. `shares_memory`: with symmetric memory if there is
  // a single host.
  backends::ProcessGroup& begin_run(std::chrono::milliseconds timeout, bool shares_memory);

  // Leaves the other ranks. Waits until rank 0 does the same, at most for the timeout of the run, or 60 s if the run
  // has failed, and then for all others. If they do not, because they are dead or stuck, exits this process with
  // `exit_code` after 20 s, or 3 s if the run has failed.
  void end(int exit_code);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace runner::train
