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
#include "schema/base/file.h"
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
  const ChildStart start{.words = {"sbatch", "--parsable"},
                         .variables = environment_of_sbatch(),
                         .in = scratch.path() / "script",
                         .out = scratch.path() / "out",
                         .messages = scratch.path() / "messages"};
  formats::write_new_file(start.in, script);
  pid_t child = -1;
  const int error = start_child(start, child);
  RUN_CHECK(error != ENOENT, ErrorKind::kRun,
            "sbatch is not installed, or its folder is not in PATH; write the script with --output FILE, and run "
            "`sbatch FILE` on a machine that submits jobs");
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start sbatch: {}", system_reason(error));
  const int status = wait_for_child(child);
  out.talk(read_file(start.messages).value_or(""));
  RUN_CHECK(!WIFSIGNALED(status), ErrorKind::kRun, "signal {} ended sbatch; `squeue --me` shows whether there is a job",
            WTERMSIG(status));
  RUN_CHECK(WEXITSTATUS(status) == 0, ErrorKind::kRun, "sbatch failed with exit code {}; no job was submitted",
            WEXITSTATUS(status));
  const std::string answer = read_file(start.out).value_or("");  // "ID" or "ID;CLUSTER"
  return answer.substr(0, answer.find_first_of(";\n"));
}

}  // namespace runner::cli
