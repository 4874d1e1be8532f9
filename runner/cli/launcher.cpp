#include "runner/cli/launcher.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "schema/base/error.h"

namespace runner::cli {
namespace {

// The variables that a launcher sets in each of its processes. Slurm sets those of PMI, too.
struct Launcher {
  const char* name;
  const char* size;         // number of processes
  const char* rank;         // of this process
  const char* one_process;  // how to start one
};

// SLURM_NTASKS is also set where no srun is: in batch scripts and by salloc. So the size is that of the step.
constexpr Launcher kLaunchers[] = {
    {"torchrun or the like", "WORLD_SIZE", "RANK", "without torchrun"},
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "without mpirun, or with `mpirun -n 1 --bind-to none`"},
    {"MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "without mpirun, or with `mpirun -n 1`"},
    {"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "with `srun --overlap --ntasks=1 --cpus-per-task=CORES`"},
    {"a launcher with PMI", "PMI_SIZE", "PMI_RANK", "without mpirun, or with `mpirun -n 1`"},
};

// Returns 1 if the variable has no number.
int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  int number = 1;
  if (text == nullptr) return number;
  const std::string_view digits(text);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 1;
}

}  // namespace

void refuse_several_processes() {
  for (const Launcher& launcher : kLaunchers) {
    const int size = number_in(launcher.size);
    if (size <= 1 || std::getenv(launcher.rank) == nullptr) continue;
    fail(ErrorKind::kUsage,
         "{} started {} processes ({}={}), which this program cannot connect by MPI or PMI: each would train the whole "
         "recipe; start one, {}; num_processes gives ranks on this machine",
         launcher.name, size, launcher.size, size, launcher.one_process);
  }
}

}  // namespace runner::cli
