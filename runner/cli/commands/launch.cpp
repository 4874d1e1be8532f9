#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "backends/dist/mpi/mpi_network.h"
#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recipe_file.h"
#include "runner/cli/recipe_trial.h"
#include "runner/cli/sbatch.h"
#include "runner/cli/slurm_script.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/recipe/field_table.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

struct LaunchOptions : RecipeOptions {
  std::string scheduler;
  int64_t nodes = kNotGiven, tasks_per_node = kNotGiven, cpus_per_task = kNotGiven;
  std::string time, partition, mpi, output;
  bool requeue = false, submit = false;
};

constexpr Argument kLaunchArguments[] = {
    {"SCHEDULER", "slurm", "job scheduler: slurm", &LaunchOptions::scheduler},
    kRecipeArgument,
    kOverridesArgument,
    {"--nodes",
     "N",
     "machines; default: as many as num_processes needs, else 1",
     &LaunchOptions::nodes,
     Kind::kText,
     {},
     1},
    {"--tasks-per-node",
     "M",
     "ranks of each machine; default: as many as num_processes needs, else 1",
     &LaunchOptions::tasks_per_node,
     Kind::kText,
     {},
     1},
    {"--cpus-per-task",
     "C",
     "cores of each rank; default: the recipe's threads, else 1",
     &LaunchOptions::cpus_per_task,
     Kind::kText,
     {},
     1},
    {"--time", "T", "time limit: 90 (minutes), 4:00:00, 1-12 (days-hours); default: the partition's",
     &LaunchOptions::time},
    {"--partition", "P", "partition; default: the cluster's", &LaunchOptions::partition},
    {"--mpi", "pmi2|pmix", "how srun connects the ranks; default: as the MPI library of this program needs",
     &LaunchOptions::mpi},
    {"--requeue", "",
     "requeue the job before its time limit, and resume the run, until the run is done; as slurm.requeue=true",
     &LaunchOptions::requeue},
    output_argument(&LaunchOptions::output),
    {"--submit", "", "submit the script with sbatch, and print the job's id instead of the script",
     &LaunchOptions::submit}};

// ---- options --------------------------------------------------------------------------------------------------------

void check_time(const std::string& time) {
  if (time.empty()) return;
  const std::optional<int64_t> seconds = slurm_seconds(time);
  RUN_CHECK(seconds, ErrorKind::kUsage,
            "--time: expected minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or "
            "days-hours:minutes:seconds, such as 90, 4:00:00 or 1-12, got '{}'",
            time);
  constexpr int64_t kLeast = 300;
  RUN_CHECK(*seconds == 0 || *seconds >= kLeast, ErrorKind::kUsage,
            "--time: expected at least 5 minutes, got '{}': Slurm signals the run 2 to 3 minutes before the limit, so "
            "that it can save a state",
            time);
}

void check_partition(const std::string& partition) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+,";
  RUN_CHECK(partition.find_first_not_of(kAllowed) == std::string::npos, ErrorKind::kUsage,
            "--partition: expected names of letters, digits, _, -, . and +, separated by commas, got '{}'", partition);
}

int64_t given_or(int64_t number, int64_t otherwise) {
  return number != Options::kNotGiven ? number : otherwise;
}

struct Ranks {
  int64_t nodes, per_node;

  int64_t count() const { return nodes * per_node; }
};

// Derives what was not given from `processes`.
Ranks ranks_of(const LaunchOptions& options, std::optional<int64_t> processes) {
  const auto share = [&](int64_t parts) {
    return processes && parts != Options::kNotGiven && *processes % parts == 0 ? *processes / parts : 1;
  };
  const bool has_none = options.nodes == Options::kNotGiven && options.tasks_per_node == Options::kNotGiven;
  const Ranks ranks{given_or(options.nodes, share(options.tasks_per_node)),
                    given_or(options.tasks_per_node, share(has_none ? 1 : options.nodes))};
  const int64_t most = schema::largest_num_processes();
  RUN_CHECK(ranks.nodes <= most && ranks.per_node <= most && ranks.count() <= most, ErrorKind::kUsage,
            "--nodes {} times --tasks-per-node {} is more than {}, the largest number of ranks", ranks.nodes,
            ranks.per_node, most);
  RUN_CHECK(!processes || ranks.count() == *processes, ErrorKind::kUsage,
            "--nodes {} times --tasks-per-node {} is {} ranks, but num_processes is {}; remove num_processes from the "
            "recipe, set num_processes={}, or choose nodes and tasks whose product is {}",
            ranks.nodes, ranks.per_node, ranks.count(), *processes, ranks.count(), *processes);
  return ranks;
}

// Open MPI connects by PMIx; MPICH and the libraries made from it by PMI 2.
std::string usual_mpi() {
  const std::vector<backends::MpiModule> modules = backends::mpi_modules(/*with_versions=*/true);
  RUN_CHECK(!modules.empty(), ErrorKind::kUsage,
            "a job with several ranks needs MPI, which this build does not have; build it where an MPI library and its "
            "mpicc are installed, or use one node and one task");
  const bool has_only_open_mpi = std::ranges::all_of(modules, &backends::MpiModule::is_open_mpi);
  return has_only_open_mpi ? "pmix" : "pmi2";
}

// ---- the job --------------------------------------------------------------------------------------------------------

// Reads the recipe as each rank will, and tries it.
schema::ReadResult checked_recipe(const LaunchOptions& options, const Ranks& ranks, schema::ReadResult recipe,
                                  report::Output& out) {
  if (ranks.count() > 1) recipe = with_processes(std::move(recipe), options, ranks.count(), out);
  print_warnings(try_recipe(recipe, out), out);
  return recipe;
}

std::string absolute_text(const fs::path& path) {
  return fs::absolute(path).string();
}

SlurmJob job_of(const LaunchOptions& options, const Ranks& ranks, const schema::Recipe& recipe) {
  SlurmJob job{.runner = fs::read_symlink("/proc/self/exe").string(),
               .recipe = absolute_text(options.recipe),
               .store = absolute_text(store_path(options)),
               .name = slurm_job_name(recipe.name),
               .settings = options.overrides,
               .nodes = ranks.nodes,
               .tasks_per_node = ranks.per_node,
               .cpus_per_task = given_or(options.cpus_per_task, std::max<int64_t>(1, recipe.threads)),
               .time = options.time,
               .partition = options.partition,
               .mpi = ranks.count() == 1    ? ""
                      : options.mpi.empty() ? usual_mpi()
                                            : options.mpi,
               .max_restarts = recipe.max_restarts,
               .requeue = recipe.slurm.requeue};
  std::erase_if(job.settings, [](const std::string& setting) { return setting.starts_with("name="); });
  return job;
}

bool goes_to_file(const std::string& output) {
  return !output.empty() && output != "-";
}

int launch(const LaunchOptions& given, report::Output& out) {
  LaunchOptions options = given;
  if (options.requeue) options.overrides.emplace_back("slurm.requeue=true");
  check_time(options.time);
  check_partition(options.partition);
  schema::ReadResult recipe = read_recipe_file(options, out);
  const Ranks ranks = ranks_of(options, given_processes(recipe));
  recipe = checked_recipe(options, ranks, std::move(recipe), out);
  const SlurmJob job = job_of(options, ranks, recipe.recipe);
  const std::string script = slurm_script(job);
  if (!options.submit || !options.output.empty())
    out.file(options.output.empty() ? "-" : options.output, script, formats::FileKind::kText);
  if (options.submit) {
    const std::string id = submit_to_slurm(script, out);
    out.data(id + '\n');
    out.say(fmt::format("submitted job {}: run {}-{}, log {}-{}.log", id, job.name, id, job.name, id));
  } else if (goes_to_file(options.output)) {
    out.talk(fmt::format("wrote {}\nnext: sbatch {}\n", options.output, options.output));
  }
  return 0;
}

}  // namespace

const Command kLaunchCommand{
    .name = "launch",
    .group = Group::kTrain,
    .summary = "write a batch script for a cluster, or submit it",
    .details =
        "Checks the recipe as `runner check` does, and writes a script in which srun starts one process for each\n"
        "rank.  The number of ranks is nodes times tasks per node.  Slurm signals the run two minutes before the\n"
        "time limit; the run then saves a state.  A job that Slurm starts again resumes its run: docs/cli.md.",
    .arguments = kLaunchArguments,
    .examples =
        "runner launch slurm recipes/digits.yaml --cpus-per-task 8 --time 4:00:00\n"
        "runner launch slurm recipes/digits.yaml train.epochs=5 --partition short --requeue --output digits.sh",
    .other_names = "sbatch submit slurm",
    .has_json = false,
    .action = action<launch>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
