#include "runner/cli/slurm_job.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>

#include "runner/cli/child_process.h"
#include "runner/cli/launcher.h"
#include "runner/cli/store_access.h"
#include "runner/report/environment.h"
#include "runner/train/run/checkpoint/restore.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"

namespace runner::cli {
namespace {

bool is_restarted() {
  const char* const restarts = std::getenv("SLURM_RESTART_COUNT");
  return restarts != nullptr && whole_number(restarts).value_or(0) > 0;
}

bool has_run_in(const store::RunDetails& run, const std::string& job) {
  return std::ranges::any_of(run.provenance, [&](const store::AttemptProvenance& attempt) {
    const json::Value environment = json::parse(attempt.provenance.environment_json);
    return json::text_of(json::member(environment, report::kSlurmJob)) == job;
  });
}

std::string run_scontrol(std::vector<std::string> words) {
  words.insert(words.begin(), "scontrol");
  const std::string command = fmt::format("{}", fmt::join(words, " "));
  const FinishedChild child = run_child({.words = std::move(words)});
  RUN_CHECK(child.error == 0, ErrorKind::kRun, "cannot start {}: {}", command, system_reason(child.error));
  RUN_CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0, ErrorKind::kRun, "{} failed: {}", command,
            child.messages.substr(0, child.messages.find('\n')));
  return child.out;
}

// `line`: "KEY=VALUE KEY=VALUE …".
std::string_view value_of(std::string_view line, std::string_view key) {
  const size_t at = line.find(fmt::format(" {}=", key));
  if (at == std::string_view::npos) return "";
  const std::string_view value = line.substr(at + key.size() + 2);
  return value.substr(0, value.find_first_of(" \n"));
}

// Slurm would also start a cancelled job again. At its time limit a job is about to end, and is meant to continue.
void check_can_requeue(std::string_view job) {
  const std::string_view state = value_of(job, "JobState");
  RUN_CHECK(state == "RUNNING" || value_of(job, "Reason") == "TimeLimit", ErrorKind::kRun,
            "Slurm is ending it, its state is {}", state);
  RUN_CHECK(value_of(job, "BatchFlag") != "0", ErrorKind::kRun, "it has no batch script");
}

}  // namespace

std::optional<store::RunDetails> run_before_requeue(const Attempt& attempt, const Options& options) {
  const train::RunOrigin& origin = attempt.start.origin;
  const std::string job = report::slurm_job_id();
  if (!attempt.recipe.recipe.slurm.requeue || job.empty()) return std::nullopt;
  RUN_CHECK(!is_own_run_of_several(), ErrorKind::kUsage,
            "slurm.requeue needs one run in a job, but with RUNNER_MPI=off each process trains a run of its own; "
            "start one process, or unset RUNNER_MPI");
  if (!is_restarted() || !origin.resume.empty() || !std::filesystem::exists(store_path(options))) return std::nullopt;
  store::Store store = open_store(options);
  for (const store::RunRow& row : store::list_runs(store)) {
    const bool is_same = origin.fork != nullptr ? row.parent == origin.fork->run
                                                : row.parent.empty() && row.name == attempt.recipe.recipe.name;
    if (!is_same) continue;
    store::RunDetails run = store::show_run(store, row);
    if (run.recipe.hash == attempt.record.hash && has_run_in(run, job)) return run;
  }
  return std::nullopt;
}

void requeue_job(report::Output& out) {
  const std::string job = report::slurm_job_id();
  if (job.empty()) return;
  try {
    check_can_requeue(run_scontrol({"--oneliner", "show", "job", job}));
    run_scontrol({"requeue", job});
    out.say(fmt::format("requeued job {}", job));
  } catch (const Error& error) {
    out.say(fmt::format("warning: job {} is not requeued: {}", job, error.message()));
  }
}

}  // namespace runner::cli
