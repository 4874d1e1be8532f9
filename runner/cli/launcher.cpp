#include "runner/cli/launcher.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/dist/mpi/mpi_network.h"
#include "backends/dist/rank_error.h"
#include "runner/cli/version.h"
#include "schema/base/error.h"
#include "schema/base/signal_set.h"
#include "schema/base/text.h"

namespace runner::cli {
namespace {

// Returns 1 if the variable has no number.
int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 1 : whole_number(text).value_or(1);
}

// The variables that a launcher sets in each of its processes.
struct Launcher {
  const char* name;
  const char* size;    // number of processes
  const char* rank;    // of this process
  const char* remedy;  // if the processes cannot be connected
  // `mpirun.mpich -pmi-port` tells the number only to a program that connects; then `size` has the port.
  bool tells_size = true;

  bool may_have_started_several() const { return !tells_size ? std::getenv(size) != nullptr : number_in(size) > 1; }
};

// SLURM_NTASKS is also set where no srun is: in batch scripts and by salloc. So the size is that of the step. Slurm
// comes after PMI, because in its jobs mpirun starts one helper per host by srun, and the helpers start the processes.
// The variables of torchrun come last, because scripts may set them for another program.
constexpr Launcher kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "start one, without mpirun, or with `mpirun -n 1 --bind-to none`"},
    {"MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "start one, without mpirun, or with `mpirun -n 1`"},
    {"a launcher with PMI", "PMI_SIZE", "PMI_RANK", "start one, without mpirun, or with `mpirun -n 1`"},
    {"a launcher with PMI", "PMI_PORT", "PMI_ID", "start one, without mpirun", /*tells_size=*/false},
    {"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
     "connect them by `srun --mpi=pmix` (Open MPI) or `srun --mpi=pmi2` (MPICH), or start one, with `srun --overlap "
     "--ntasks=1 --cpus-per-task=CORES`"},
    {"torchrun or the like", "WORLD_SIZE", "RANK", "start one, without torchrun"},
};

const Launcher* launcher_of_several() {
  for (const Launcher& launcher : kLaunchers)
    if (launcher.may_have_started_several() && std::getenv(launcher.rank) != nullptr) return &launcher;
  return nullptr;
}

bool is_set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// By the variables through which an MPI library finds the server of its launcher: PMIx of Open MPI and Slurm, or PMI of
// MPICH, Intel MPI and Slurm. Returns the name of a module; empty: this process is alone.
std::string module_of_connection() {
  if (const char* const given = std::getenv(kMpiVariable); given != nullptr && *given != '\0') return given;
  constexpr const char* kServers[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                      "PMIX_SERVER_URI21", "PMIX_SERVER_URI2", "PMIX_SERVER_URI"};
  if (is_set("PMIX_RANK"))
    for (const char* const server : kServers)
      if (is_set(server)) return "openmpi";
  // A job that a process of another job submits has the variable, but not the descriptor.
  const bool has_descriptor = is_set("PMI_FD") && ::fcntl(number_in("PMI_FD"), F_GETFD) != -1;
  return has_descriptor || is_set("PMI_PORT") ? "mpich" : "";
}

// The module of the name, or the only one, which was compiled for the library of this system.
std::string built_module(const std::string& wanted) {
  const std::vector<backends::MpiModule> modules = backends::mpi_modules();
  for (const std::string& name : {wanted, std::string("mpi")})
    if (std::ranges::find(modules, name, &backends::MpiModule::name) != modules.end()) return name;
  fail(ErrorKind::kUsage,
       "the launcher connects its processes by {}, but this build has {}; build it where the library and its mpicc are "
       "installed, or choose another launcher",
       wanted, modules.empty() ? "no MPI" : "only " + backends::names_of(modules));
}

std::unique_ptr<train::MpiRanks> connected;

}  // namespace

bool is_launched() {
  return std::ranges::any_of(kLaunchers,
                             [](const Launcher& launcher) { return is_set(launcher.size) && is_set(launcher.rank); });
}

bool is_one_of_several() {
  return launcher_of_several() != nullptr && module_of_connection() != kOwnRun;
}

bool is_own_run_of_several() {
  return launcher_of_several() != nullptr && module_of_connection() == kOwnRun;
}

bool is_silent_process() {
  const Launcher* const launcher = launcher_of_several();
  const std::string module = module_of_connection();
  return launcher != nullptr && !module.empty() && module != kOwnRun && number_in(launcher->rank) != 0;
}

void connect_to_launched(std::span<const std::string> words) {
  const Launcher* const launcher = launcher_of_several();
  const std::string module = module_of_connection();
  if (launcher == nullptr || module == kOwnRun) return;
  const int size = launcher->tells_size ? number_in(launcher->size) : 0;
  RUN_CHECK(!module.empty(), ErrorKind::kUsage,
            "{} started {} processes ({}={}), which this program cannot connect by MPI or PMI: each would train the "
            "whole recipe; {}; num_processes gives ranks on this machine",
            launcher->name, size, launcher->size, size, launcher->remedy);
  // Before the run, these signals would end the process. Interrupt unblocks them.
  const sigset_t of_schedulers = signal_set({SIGUSR1, SIGUSR2});
  ::pthread_sigmask(SIG_BLOCK, &of_schedulers, nullptr);
  connected =
      std::make_unique<train::MpiRanks>(train::MpiRanks::Options{.module = built_module(module),
                                                                 .processes = size,
                                                                 .program = fmt::format("{} {}", version(), build_id()),
                                                                 .command = fmt::format("{}", fmt::join(words, " "))});
  if (connected->rank() == 0 && earlier_attempts() != nullptr) send(report_of_connection());
}

train::MpiRanks* launched_ranks() {
  return connected.get();
}

void leave_launched(int exit_code) {
  if (connected == nullptr) return;
  connected->end(exit_code);
  connected.reset();
}

int end_with_launched(std::span<const std::string> words, int exit_code) noexcept {
  const bool is_silent = is_silent_process();
  try {
    connect_to_launched(words);
    leave_launched(exit_code);
  } catch (const backends::RankError&) {
    // Of all processes: they have different command lines, for instance.
  } catch (const std::exception&) {
    return exit_code;  // not connected
  }
  return is_silent ? 0 : exit_code;
}

void check_number_of_launched(int64_t num_processes) {
  RUN_CHECK(connected == nullptr || num_processes == connected->size(), ErrorKind::kUsage,
            "num_processes is {}, but the launcher has started {} processes, one for each rank; start {} processes, or "
            "set num_processes={}",
            num_processes, connected->size(), num_processes, connected->size());
}

}  // namespace runner::cli
