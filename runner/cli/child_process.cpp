#include "runner/cli/child_process.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/runtime/descriptor.h"
#include "runner/cli/scratch_folder.h"
#include "schema/base/file.h"
#include "schema/base/signal_set.h"

extern char** environ;

namespace runner::cli {
namespace {

std::vector<char*> argument_list(const ChildStart& start) {
  std::vector<char*> words;
  for (const std::string& word : start.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return words;
}

bool open_as(int stream, const char* path, int flags) {
  const int descriptor = ::open(path, flags | O_CLOEXEC, 0600);
  return descriptor >= 0 && ::dup2(descriptor, stream) >= 0;
}

// Runs in the child. Returns only if the program cannot be started. Async-signal-safe.
void become_program(const ChildStart& start, char* const* words, pid_t parent) {
  if (start.has_own_group) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // it had ended before
  if (!open_as(STDIN_FILENO, start.in.c_str(), O_RDONLY)) return;
  if (!start.out.empty() && !open_as(STDOUT_FILENO, start.out.c_str(), O_WRONLY | O_CREAT)) return;
  if (!start.messages.empty() && !open_as(STDERR_FILENO, start.messages.c_str(), O_WRONLY | O_CREAT)) return;
  if (start.out_descriptor >= 0) ::dup2(start.out_descriptor, STDOUT_FILENO);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  const sigset_t none = signal_set({});
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(words[0], words, start.variables.empty() ? environ : start.variables.data());
}

// posix_spawn(3) cannot ask for a signal at the end of the parent.
int fork_child(const ChildStart& start, pid_t& child) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
  const backends::Descriptor reading(ends[0]);
  std::vector<char*> words = argument_list(start);
  const pid_t parent = ::getpid();
  int error = 0;
  {
    const backends::Descriptor writing(ends[1]);
    child = ::fork();
    if (child < 0) return errno;
    if (child == 0) {
      become_program(start, words.data(), parent);
      error = errno;
      const ssize_t written = ::write(ends[1], &error, sizeof error);
      ::_exit(written > 0 ? 127 : 126);
    }
  }
  if (start.has_own_group) ::setpgid(child, child);  // before anything is sent to the group
  ssize_t size = 0;
  while ((size = ::read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (size != sizeof error) return 0;
  wait_for_child(child);
  return error;
}

}  // namespace

int start_child(const ChildStart& start, pid_t& child) {
  if (start.ends_with_parent) return fork_child(start, child);
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
  const std::vector<char*> words = argument_list(start);
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
