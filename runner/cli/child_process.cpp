#include "runner/cli/child_process.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cli/scratch_folder.h"
#include "schema/base/file.h"
#include "schema/base/signal_set.h"

extern char** environ;

namespace runner::cli {

int start_child(const ChildStart& start, pid_t& child) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, start.in.c_str(), O_RDONLY, 0);
  const auto create = [&](int stream, const std::filesystem::path& path) {
    if (!path.empty()) ::posix_spawn_file_actions_addopen(&files, stream, path.c_str(), O_WRONLY | O_CREAT, 0600);
  };
  create(STDOUT_FILENO, start.out);
  create(STDERR_FILENO, start.messages);
  if (start.out_descriptor >= 0) ::posix_spawn_file_actions_adddup2(&files, start.out_descriptor, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const sigset_t none = signal_set({}), ignored = signal_set({SIGPIPE, SIGXFSZ});
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &ignored);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  const int group = start.has_own_group ? POSIX_SPAWN_SETPGROUP : 0;
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  std::vector<char*> words;
  for (const std::string& word : start.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char* const* const variables = start.variables.empty() ? environ : start.variables.data();
  const int error = ::posix_spawnp(&child, words[0], &files, &attributes, words.data(), variables);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

int wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

FinishedChild run_child(ChildStart start) {
  const ScratchFolder scratch("output");
  start.out = scratch.path() / "out";
  start.messages = scratch.path() / "messages";
  pid_t child = -1;
  FinishedChild finished{.error = start_child(start, child)};
  if (finished.error != 0) return finished;
  finished.status = wait_for_child(child);
  finished.out = read_file(start.out).value_or("");
  finished.messages = read_file(start.messages).value_or("");
  return finished;
}

}  // namespace runner::cli
