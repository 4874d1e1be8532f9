#include "runner/cli/sbatch.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "runner/cli/child_process.h"
#include "runner/cli/scratch_folder.h"
#include "runner/formats/write.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner::cli {
namespace {

// The environment without what Slurm has set for the job in which this program runs, if it does. sbatch gives its
// environment to the new job, which would take itself for an element of the other job's array, or for restarted.
std::vector<char*> environment_of_sbatch() {
  constexpr std::string_view kKept[] = {"SLURM_CONF=", "SLURM_CLUSTERS=", "SLURM_JWT="};
  const bool is_in_job = std::getenv("SLURM_JOB_ID") != nullptr;
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool is_kept = std::ranges::any_of(kKept, [&](std::string_view start) { return text.starts_with(start); });
    if (!is_in_job || is_kept || !text.starts_with("SLURM_")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

std::string submit_to_slurm(const std::string& script, report::Output& out) {
  const ScratchFolder scratch("sbatch");
  const std::filesystem::path file = scratch.path() / "script";
  formats::write_new_file(file, script);
  const FinishedChild child =
      run_child({.words = {"sbatch", "--parsable"}, .variables = environment_of_sbatch(), .in = file});
  RUN_CHECK(child.error != ENOENT, ErrorKind::kRun,
            "sbatch is not installed, or its folder is not in PATH; write the script with --output FILE, and run "
            "`sbatch FILE` on a machine that submits jobs");
  RUN_CHECK(child.error == 0, ErrorKind::kRun, "cannot start sbatch: {}", system_reason(child.error));
  const int status = child.status;
  out.talk(child.messages);
  RUN_CHECK(!WIFSIGNALED(status), ErrorKind::kRun, "signal {} ended sbatch; `squeue --me` shows whether there is a job",
            WTERMSIG(status));
  RUN_CHECK(WEXITSTATUS(status) == 0, ErrorKind::kRun, "sbatch failed with exit code {}; no job was submitted",
            WEXITSTATUS(status));
  return child.out.substr(0, child.out.find_first_of(";\n"));  // "ID" or "ID;CLUSTER"
}

}  // namespace runner::cli
