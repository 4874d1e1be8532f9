// Batch scripts of Slurm (sbatch) that train a recipe. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner::cli {

// Slurm signals the run this long before the time limit, or up to a minute earlier. Then the run saves a state.
inline constexpr int64_t kSlurmSignalSeconds = 120;

struct SlurmJob {
  std::string runner, recipe, store;  // absolute paths, so that the script works from any folder
  std::string name;                   // from slurm_job_name(); the run's name is this, a dash and the job id
  std::vector<std::string> settings;  // KEY=VALUE; without `name`
  int64_t nodes = 1;
  int64_t tasks_per_node = 1;  // ranks of each node
  int64_t cpus_per_task = 1;
  std::string time, partition;  // empty: the cluster's default
  std::string mpi;              // how srun connects the ranks; empty for a single rank
  int64_t max_restarts = 0;     // after the loss of a process, within the job
  bool requeue = false;         // whether the run requeues the job (slurm.requeue), which Slurm must allow
};

// Returns the script. The number of restarts that Slurm reports tells a restarted job to resume its run.
std::string slurm_script(const SlurmJob& job);

// Returns the name of a run with a dash for each character that has a meaning in script directives, file names,
// patterns of runs or settings. At most 150 characters.
std::string slurm_job_name(std::string_view run_name);

// Returns the seconds of a time limit: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes or days-hours:minutes:seconds. 0 means no limit. Returns nullopt for another format.
std::optional<int64_t> slurm_seconds(std::string_view time);

}  // namespace runner::cli
