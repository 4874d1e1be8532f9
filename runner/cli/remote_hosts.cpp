#include "runner/cli/remote_hosts.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "backends/dist/mpi/mpi_network.h"
#include "runner/cli/launcher.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/recipe/field_table.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// The programs by which a library starts processes on other hosts, in the order of preference.
struct LauncherPrograms {
  const char* module;
  const char* programs[2];
};

constexpr LauncherPrograms kLauncherPrograms[] = {
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

}  // namespace

RemoteLauncher choose_launcher() {
  const char* const given = std::getenv(kMpiVariable);
  const std::vector<backends::MpiModule> modules = backends::mpi_modules(/*with_versions=*/true);
  for (const LauncherPrograms& row : kLauncherPrograms) {
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

// mpirun and ssh would take other characters for options, patterns or separators.
static bool is_host_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !text.empty() && text.front() != '-' && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::vector<HostSlots> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  const int64_t most = schema::largest_num_processes();
  int64_t ranks = 0;
  for (std::string_view rest = text;;) {
    const size_t end = std::min(rest.find(','), rest.size());
    std::string_view host = rest.substr(0, end);
    HostSlots slots;
    if (const size_t colon = host.rfind(':'); colon != std::string_view::npos) {
      slots.ranks = whole_number(host.substr(colon + 1)).value_or(0);
      host = host.substr(0, colon);
    }
    RUN_CHECK(is_host_name(host) && slots.ranks > 0, ErrorKind::kUsage,
              "--hosts: expected host names or IPv4 addresses with their numbers of ranks, such as a:2,b:2, got {}",
              text);
    slots.name = host;
    ranks += slots.ranks;
    RUN_CHECK(ranks <= most, ErrorKind::kUsage, "--hosts: expected at most {} ranks in all, got {}", most, text);
    hosts.push_back(std::move(slots));
    if (end == rest.size()) return hosts;
    rest.remove_prefix(end + 1);
  }
}

std::vector<std::string> launch_command(const RemoteLauncher& launcher, const std::vector<HostSlots>& hosts,
                                        const std::vector<std::string>& variables, const std::string& program,
                                        const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const HostSlots& host : hosts) names.push_back(fmt::format("{}:{}", host.name, host.ranks));
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  std::vector<std::string> command{launcher.program};
  if (launcher.module.is_open_mpi()) {
    command.insert(command.end(), {"--host", list, "--bind-to", "none"});
    if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
    for (const std::string& name : variables) command.insert(command.end(), {"-x", name});
    command.insert(command.end(), {"-x", fmt::format("{}={}", kMpiVariable, launcher.module.name)});
  } else {  // MPICH passes on all variables
    command.insert(command.end(), {"-hosts", list, "-genv", kMpiVariable, launcher.module.name});
  }
  command.insert(command.end(), {"-n", std::to_string(ranks_of(hosts)), program});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

int ranks_of(const std::vector<HostSlots>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int ranks, const HostSlots& host) { return ranks + host.ranks; });
}

}  // namespace runner::cli
