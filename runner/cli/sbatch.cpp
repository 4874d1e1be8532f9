#include "runner/cli/sbatch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cli/scratch_folder.h"
#include "runner/formats/write.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/system_limits.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// The standard streams of a process, as files.
struct Streams {
  fs::path in, out, messages;
};

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

// Starts sbatch with the signal actions of a new program: this one ignores SIGPIPE. Returns 0 or errno.
int start_sbatch(const Streams& streams, pid_t& child) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, streams.in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, streams.out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, streams.messages.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t reset;
  sigemptyset(&reset);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&reset, signal);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::string program = "sbatch", option = "--parsable";
  const std::array<char*, 3> words{program.data(), option.data(), nullptr};
  const std::vector<char*> variables = environment_of_sbatch();
  const int error = ::posix_spawnp(&child, program.c_str(), &files, &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

std::string submit_to_slurm(const std::string& script, report::Output& out) {
  const ScratchFolder scratch("sbatch");
  const Streams streams{scratch.path() / "script", scratch.path() / "out", scratch.path() / "messages"};
  formats::write_new_file(streams.in, script);
  pid_t child = -1;
  const int error = start_sbatch(streams, child);
  RUN_CHECK(error != ENOENT, ErrorKind::kRun,
            "sbatch is not installed, or its folder is not in PATH; write the script with --output FILE, and run "
            "`sbatch FILE` on a machine that submits jobs");
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start sbatch: {}", system_reason(error));
  const int status = status_of(child);
  out.talk(read_file(streams.messages).value_or(""));
  RUN_CHECK(!WIFSIGNALED(status), ErrorKind::kRun, "signal {} ended sbatch; `squeue --me` shows whether there is a job",
            WTERMSIG(status));
  RUN_CHECK(WEXITSTATUS(status) == 0, ErrorKind::kRun, "sbatch failed with exit code {}; no job was submitted",
            WEXITSTATUS(status));
  const std::string answer = read_file(streams.out).value_or("");  // "ID" or "ID;CLUSTER"
  return answer.substr(0, answer.find_first_of(";\n"));
}

}  // namespace runner::cli
