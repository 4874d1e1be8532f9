// Messages through an MPI library, which is loaded at run time.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/dist/mpi/mpi_functions.h"
#include "backends/dist/network.h"

namespace runner::backends {

// Name of a supported library, as in the file name of its module: "openmpi", "mpich" or, if it was compiled for the
// mpicc of the system, "mpi".
struct MpiModule {
  std::string name;
  std::string version;  // "Open MPI v4.1.4", or why the module cannot be loaded; empty: not asked for

  bool is_open_mpi() const { return version.starts_with("Open MPI"); }
};
// Returns the modules that were built. `with_versions`: loads them, which takes some milliseconds each.
std::vector<MpiModule> mpi_modules(bool with_versions = false);
// "mpich, openmpi"
std::string names_of(const std::vector<MpiModule>& modules);

class MpiNetwork final : public Network {
 public:
  // Connects this process to the others that its launcher started. `module`: name. Throws Error(kUsage) if the module
  // is missing or cannot be loaded, and Error(kRun) if MPI does not start.
  explicit MpiNetwork(const std::string& module);
  MpiNetwork(const MpiNetwork&) = delete;
  MpiNetwork& operator=(const MpiNetwork&) = delete;

  // Renumbers the processes: rank r is the process that had rank `order[r]`. The same on all ranks.
  void reorder(const std::vector<int>& order);
  // Waits for all processes to do the same. Throws Error(kRun) if the library cannot.
  void end();

  std::string version() const;
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(processes_.size()); }
  Request send(int to, Channel channel, std::span<const std::byte> data) override;
  Request receive(int from, Channel channel, std::span<std::byte> data) override;
  bool is_done(Request& request) override;
  void cancel(Request& request) noexcept override;
  void keep(std::shared_ptr<const void> memory) override;

 private:
  void check(int error, const char* what) const;

  const runner_mpi_functions& mpi_;
  mutable std::mutex mutex_;  // around each call of MPI
  int rank_ = 0;
  std::vector<int> processes_;  // MPI ranks, by rank
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace runner::backends
