#include "runner/cli/remote_hosts.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/mpi/mpi_network.h"
#include "runner/cli/exit_codes.h"
#include "runner/cli/launcher.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"

extern char** environ;

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// The programs by which a library starts processes on other hosts, in the order of preference.
struct RemoteLauncher {
  const char* module;
  const char* programs[2];
};

constexpr RemoteLauncher kRemoteLaunchers[] = {
    {"openmpi", {"mpirun.openmpi", "mpirun"}},
    {"mpich", {"mpiexec.hydra", "mpirun.mpich"}},
    {"mpi", {"mpiexec", "mpirun"}},
};

// Returns the path of a program in PATH.
std::optional<std::string> found_in_path(std::string_view program) {
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / program;
    if (::access(file.c_str(), X_OK) == 0) return file.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

struct Chosen {
  backends::MpiModule module;
  std::string launcher;
};

Chosen choose_launcher() {
  const char* const given = std::getenv(kMpiVariable);
  const std::vector<backends::MpiModule> modules = backends::mpi_modules(/*with_versions=*/true);
  for (const RemoteLauncher& row : kRemoteLaunchers) {
    if (given != nullptr && *given != '\0' && std::string_view(given) != row.module) continue;
    const auto module = std::ranges::find(modules, row.module, &backends::MpiModule::name);
    if (module == modules.end()) continue;
    for (const char* const program : row.programs)
      if (const auto launcher = found_in_path(program)) return {*module, *launcher};
  }
  std::vector<std::string> names;
  for (const backends::MpiModule& module : modules) names.push_back(module.name);
  fail(
      ErrorKind::kUsage,
      "--hosts needs mpirun of an MPI library: this build can use {}, and PATH has no launcher of it; install Open MPI "
      "or MPICH on all hosts and build again",
      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// Of this program and of the store.
std::vector<std::string> own_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("RUNNER_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::vector<std::string> without_hosts(const std::vector<std::string>& words) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--hosts") {
      ++i;
    } else if (!words[i].starts_with("--hosts=")) {
      rest.push_back(words[i]);
    }
  }
  return rest;
}

// A signal handler can access only static data.
std::atomic<pid_t> launcher_process{0};
std::atomic<int> requests{0};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Async-signal-safe. mpirun passes SIGUSR1 on to the ranks, which save a state; SIGTERM makes it kill them.
extern "C" void pass_on_signal(int) {
  const int saved_errno = errno;
  ::kill(launcher_process.load(), requests.fetch_add(1) == 0 ? SIGUSR1 : SIGTERM);
  errno = saved_errno;
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

// In a process group of its own, so that Ctrl-C reaches only this process. Standard input is empty. No signal is
// blocked or ignored.
pid_t spawn_launcher(const std::vector<std::string>& command) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  const sigset_t none = set_of({}), defaults = set_of({SIGPIPE, SIGXFSZ});
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start {}: {}", command[0], system_reason(error));
  return pid;
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (std::string_view rest = text;;) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view host = rest.substr(0, end);
    HostSlots slots;
    if (const size_t colon = host.rfind(':'); colon != std::string_view::npos) {
      const std::string_view digits = host.substr(colon + 1);
      const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), slots.ranks);
      if (error != std::errc() || last != digits.data() + digits.size()) slots.ranks = 0;
      host = host.substr(0, colon);
    }
    RUN_CHECK(!host.empty() && slots.ranks > 0, ErrorKind::kUsage,
              "--hosts: expected host names with their numbers of ranks, such as a:2,b:2, got {}", text);
    slots.name = host;
    hosts.push_back(std::move(slots));
    if (end == rest.size()) return hosts;
    rest.remove_prefix(end + 1);
  }
}

std::vector<std::string> launch_command(const std::vector<HostSlots>& hosts, const backends::MpiModule& module,
                                        const std::string& launcher, const std::vector<std::string>& variables,
                                        const std::string& program, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  int ranks = 0;
  for (const HostSlots& host : hosts) {
    names.push_back(fmt::format("{}:{}", host.name, host.ranks));
    ranks += host.ranks;
  }
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  std::vector<std::string> command{launcher};
  if (module.is_open_mpi()) {
    command.insert(command.end(), {"--host", list, "--bind-to", "none"});
    if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
    for (const std::string& name : variables) command.insert(command.end(), {"-x", name});
    command.insert(command.end(), {"-x", fmt::format("{}={}", kMpiVariable, module.name)});
  } else {  // MPICH passes on all variables
    command.insert(command.end(), {"-hosts", list, "-genv", kMpiVariable, module.name});
  }
  command.insert(command.end(), {"-n", std::to_string(ranks), program});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

int run_on_hosts(std::string_view hosts, const std::vector<std::string>& words) {
  RUN_CHECK(!is_one_of_several(), ErrorKind::kUsage,
            "--hosts cannot be used in processes that a launcher has started; remove it");
  const std::vector<HostSlots> slots = parse_hosts(hosts);
  const auto [module, launcher] = choose_launcher();
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  struct sigaction action {};
  action.sa_handler = pass_on_signal;
  action.sa_flags = SA_RESTART;
  const sigset_t handled = set_of({SIGINT, SIGTERM, SIGHUP});
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  launcher_process =
      spawn_launcher(launch_command(slots, module, launcher, own_variables(), program, without_hosts(words)));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
  int status = 0;
  while (::waitpid(launcher_process, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) return kSignalCode + WTERMSIG(status);
  // mpiexec of MPICH returns 0 once it has passed on a signal, however the run ended.
  const bool is_unknown = requests > 0 && WEXITSTATUS(status) == 0 && !module.is_open_mpi();
  return is_unknown ? exit_code(ErrorKind::kInterrupted) : WEXITSTATUS(status);
}

}  // namespace runner::cli
