#include "runner/cli/remote_hosts.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/mpi/mpi_network.h"
#include "runner/cli/child_process.h"
#include "runner/cli/exit_codes.h"
#include "runner/cli/launcher.h"
#include "schema/base/error.h"
#include "schema/base/signal_set.h"
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
  fail(
      ErrorKind::kUsage,
      "--hosts needs mpirun of an MPI library: this build can use {}, and PATH has no launcher of it; install Open MPI "
      "or MPICH on all hosts and build again",
      modules.empty() ? "none" : backends::names_of(modules));
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

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (std::string_view rest = text;;) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view host = rest.substr(0, end);
    HostSlots slots;
    if (const size_t colon = host.rfind(':'); colon != std::string_view::npos) {
      slots.ranks = whole_number(host.substr(colon + 1)).value_or(0);
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
  const sigset_t handled = signal_set({SIGINT, SIGTERM, SIGHUP});
  ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  pid_t child = -1;
  const int error =
      start_child({.words = launch_command(slots, module, launcher, own_variables(), program, without_hosts(words)),
                   .has_own_group = true},
                  child);
  RUN_CHECK(error == 0, ErrorKind::kRun, "cannot start {}: {}", launcher, system_reason(error));
  launcher_process = child;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
  const int status = wait_for_child(child);
  if (!WIFEXITED(status)) return kSignalCode + WTERMSIG(status);
  // mpiexec of MPICH returns 0 once it has passed on a signal, however the run ended.
  const bool is_unknown = requests > 0 && WEXITSTATUS(status) == 0 && !module.is_open_mpi();
  return is_unknown ? exit_code(ErrorKind::kInterrupted) : WEXITSTATUS(status);
}

}  // namespace runner::cli
