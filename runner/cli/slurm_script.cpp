#include "runner/cli/slurm_script.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "runner/cli/shell_word.h"
#include "schema/base/utf8.h"

namespace runner::cli {
namespace {

// Options of sbatch. `--open-mode=append`: a restarted job continues the log.
std::string directives(const SlurmJob& job) {
  std::string text;
  const auto add = [&](std::string_view option, const auto& value) {
    text += fmt::format("#SBATCH --{}={}\n", option, value);
  };
  add("job-name", job.name);
  add("nodes", job.nodes);
  add("ntasks-per-node", job.tasks_per_node);
  add("cpus-per-task", job.cpus_per_task);
  if (!job.time.empty()) add("time", job.time);
  if (!job.partition.empty()) add("partition", job.partition);
  add("output", "%x-%j.log");
  add("open-mode", "append");
  add("signal", fmt::format("USR1@{}", kSlurmSignalSeconds));
  if (job.requeue) text += "#SBATCH --requeue\n";
  return text;
}

constexpr std::string_view kJobId = R"(
# The id of this job, also if it is an element of an array.
job=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
)";

// Exit code 3: there is no such run. Other errors end the job, so that it does not begin a second run.
constexpr std::string_view kResumeOrBegin = R"(
# Trains. If $1 is above 0, resumes the run, or begins again if it has no state yet.
train() {
  states=
  if [ "$1" -gt 0 ] && [ -e "$store" ]; then
    states=$("$runner" states "$run" --db "$store") || {
      code=$?
      [ "$code" -eq 3 ] || exit "$code"
    }
  fi
  if [ -n "$states" ]; then
    set -- resume "$run"
  else
)";

// --kill-on-bad-exit=1 could kill other ranks when rank 0 has saved the state and exits with 4, and the exit code of
// srun would then be 137. --export: a job submitted with --export=NONE would start ranks without environment.
constexpr std::string_view kStart = R"(  fi
  # Slurm 22.05 does not pass --cpus-per-task of the job on to srun. The ranks of a run leave together. If one of them
  # ends alone, the others end by themselves, or else --wait kills them after two minutes.
  code=0
  srun --cpus-per-task="$SLURM_CPUS_PER_TASK"{} --export=ALL --kill-on-bad-exit=0 --wait=120 \
    "$runner" "$@" --db "$store" </dev/null || code=$?
}}
train "${{SLURM_RESTART_COUNT:-0}}"
)";

constexpr std::string_view kRestarts = R"(
# Exit codes above 128: a signal has ended a process.
restarts=0
while [ "$code" -gt 128 ] && [ "$restarts" -lt {0} ]; do
  restarts=$((restarts + 1))
  echo "a process of the run has ended, exit code $code; restart $restarts of {0}" >&2
  train 1
done
)";

}  // namespace

std::string slurm_script(const SlurmJob& job) {
  std::string text = "#!/bin/sh\n" + directives(job);
  text += fmt::format("\nset -eu\nrunner={}\nrecipe={}\nstore={}\n", shell_word(job.runner), shell_word(job.recipe),
                      shell_word(job.store));
  text += kJobId;
  text += fmt::format("run={}-$job\n", shell_word(job.name));
  text += kResumeOrBegin;
  text += "    set -- exec \"$recipe\"";
  for (const std::string& setting : job.settings) text += ' ' + shell_word(setting);
  text += " \"name=$run\"\n";
  text += fmt::format(fmt::runtime(kStart), job.mpi.empty() ? "" : " --mpi=" + job.mpi);
  if (job.max_restarts > 0) text += fmt::format(fmt::runtime(kRestarts), job.max_restarts);
  return text + "exit \"$code\"\n";
}

std::string slurm_job_name(std::string_view run_name) {
  constexpr size_t kLongest = 150;
  std::string name;
  size_t characters = 0;
  for_each_character(run_name, [&](const Character& character, std::string_view bytes) {
    if (characters == kLongest) return;
    ++characters;
    const bool is_ascii = character.code < 0x80;
    const bool is_plain = is_ascii ? std::isalnum(static_cast<unsigned char>(bytes[0])) != 0 || bytes == "_" ||
                                         bytes == "." || bytes == "+"
                                   : !is_unsafe(character);
    name += is_plain ? bytes : "-";
  });
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));  // else an option
  return name.empty() ? "run" : name;
}

std::optional<int64_t> slurm_seconds(std::string_view time) {
  constexpr int64_t kLargest = 1'000'000;
  const size_t dash = time.find('-');
  const bool has_days = dash != std::string_view::npos;
  std::vector<int64_t> parts;
  for (std::string_view rest = time;;) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 0 || number > kLargest) return std::nullopt;
    parts.push_back(number);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) break;
    const char separator = has_days && parts.size() == 1 ? '-' : ':';
    if (rest.front() != separator) return std::nullopt;
    rest.remove_prefix(1);
  }
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;
  const size_t count = parts.size();
  if (has_days ? count < 2 || count > 4 : count > 3) return std::nullopt;
  parts.resize(4);
  if (has_days) return parts[0] * kDay + parts[1] * kHour + parts[2] * kMinute + parts[3];
  if (count == 3) return parts[0] * kHour + parts[1] * kMinute + parts[2];
  return parts[0] * kMinute + parts[1];
}

}  // namespace runner::cli
