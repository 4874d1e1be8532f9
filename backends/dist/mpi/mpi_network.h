// Messages through an MPI library, which is loaded at run time.
#pragma once

#include <functional>
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
};
// Returns the modules that were built. `with_versions`: loads them, which takes some milliseconds each.
std::vector<MpiModule> mpi_modules(bool with_versions = false);

class MpiNetwork final : public Network {
 public:
  // Connects this process to the others that its launcher started. `module`: name. Throws Error(kUsage) if the module
  // is missing or cannot be loaded, and Error(kRun) if MPI does not start.
  explicit MpiNetwork(const std::string& module);
  // Leaves without waiting for others, unless end() was called.
  ~MpiNetwork() override = default;
  MpiNetwork(const MpiNetwork&) = delete;
  MpiNetwork& operator=(const MpiNetwork&) = delete;

  // Renumbers the processes: rank r is the process that had rank `order[r]`. The same on all ranks.
  void reorder(const std::vector<int>& order);
  // Waits for all processes. No message may be in flight.
  void end();
  // Ends all processes with this exit code.
  [[noreturn]] void abort(int exit_code);

  std::string version() const;
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(processes_.size()); }
  Ticket send(int to, Channel channel, std::span<const std::byte> data) override;
  Ticket receive(int from, Channel channel, std::span<std::byte> data) override;
  bool is_done(Ticket& ticket) override;
  void cancel(Ticket& ticket) noexcept override;

  // Replaces `values`, floats of all ranks, by their sum in the order of the library. For benchmarks.
  void library_sum(std::span<float> values);

 private:
  void check(int error, const char* what) const;

  const runner_mpi_functions& mpi_;
  mutable std::mutex mutex_;  // around each call of MPI
  int rank_ = 0;
  std::vector<int> processes_;  // MPI ranks, by rank
};

}  // namespace runner::backends
