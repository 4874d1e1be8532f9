#include "runner/train/run/process_info.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "backends/runtime/affinity.h"
#include "backends/runtime/cpu_features.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "store/process.h"

namespace runner::train {

using backends::RankHost;

namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Number of cores that Slurm or the machine offers to all ranks of this host. Slurm may be configured to count more
// cores than the machine has.
int offered_cores() {
  const int of_job = std::atoi(environment("SLURM_CPUS_ON_NODE").c_str());
  const auto of_machine = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return of_job > 0 ? std::min(of_job, of_machine) : of_machine;
}

void check_part(const std::vector<ProcessInfo>& all, std::string ProcessInfo::*part, const char* what,
                const char* remedy) {
  for (size_t i = 1; i < all.size(); ++i)
    RUN_CHECK(all[i].*part == all[0].*part, ErrorKind::kUsage,
              "the processes have different {}: `{}` on host {}, `{}` on host {}; {}", what, all[0].*part, all[0].host,
              all[i].*part, all[i].host, remedy);
}

}  // namespace

ProcessInfo info_of_this_process(const std::string& program, const std::string& command) {
  const store::Process& process = store::this_process();
  const std::string given = environment(kHostVariable);
  std::error_code error;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", error).string();
  return {.host = given.empty() ? process.host : given,
          .machine = fmt::format("{} {} {} {}", process.boot_id, process.pid_namespace, network, given),
          .pid = process.pid,
          .cores = backends::usable_core_ids(),
          .offered = offered_cores(),
          .program = program,
          .command = command,
          .kernels = backends::cpu_features().to_string()};
}

void check_same(const std::vector<ProcessInfo>& all) {
  check_part(all, &ProcessInfo::program, "programs", "install the same build on all hosts");
  check_part(all, &ProcessInfo::command, "command lines", "start all processes with the same one");
  check_part(all, &ProcessInfo::kernels, "CPUs", "their kernels round differently; use hosts of one kind");
}

// Ranks of the same machine follow each other, machines in the order of their first ranks.
std::vector<int> order_by_machine(const std::vector<ProcessInfo>& all) {
  std::map<std::string, int> first;
  for (size_t i = 0; i < all.size(); ++i) first.emplace(all[i].machine, static_cast<int>(i));
  std::vector<int> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int i) { return first.at(all[static_cast<size_t>(i)].machine); });
  return order;
}

std::vector<RankHost> hosts_of(const std::vector<ProcessInfo>& all) {
  std::vector<RankHost> hosts;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].machine == all[i - 1].machine) {
      ++hosts.back().count;
    } else {
      hosts.push_back({all[i].host, static_cast<int>(i), 1});
    }
  }
  return hosts;
}

// Ranks of a host with the same cores divide them.
std::vector<std::vector<int>> cores_of(const std::vector<ProcessInfo>& all) {
  std::vector<std::vector<int>> shares(all.size());
  std::map<std::pair<std::string, std::vector<int>>, std::vector<size_t>> same;
  for (size_t i = 0; i < all.size(); ++i) same[{all[i].machine, all[i].cores}].push_back(i);
  for (const auto& [key, ranks] : same) {
    const auto parts = backends::shares_of_cores(key.second, static_cast<int>(ranks.size()));
    for (size_t i = 0; i < ranks.size(); ++i) shares[ranks[i]] = parts[i];
  }
  return shares;
}

size_t cores_in_use(const std::vector<ProcessInfo>& all, const RankHost& host) {
  std::set<int> cores;
  for (int i = 0; i < host.count; ++i) {
    const std::vector<int>& own = all[static_cast<size_t>(host.first + i)].cores;
    cores.insert(own.begin(), own.end());
  }
  return cores.size();
}

std::vector<std::string> binding_warnings(const std::vector<ProcessInfo>& all, const std::vector<RankHost>& hosts) {
  std::vector<std::string> texts;
  for (const RankHost& host : hosts) {
    const auto used = static_cast<int>(cores_in_use(all, host));
    const int offered = all[static_cast<size_t>(host.first)].offered, share = std::max(1, offered / host.count);
    if (used >= offered) continue;
    texts.push_back(
        fmt::format("host {} offers {}, but its {} can use only {}; start them with `mpirun --bind-to none`, `mpirun "
                    "--map-by slot:PE={}` or `srun --cpus-per-task={}`",
                    host.name, count_text(offered, "core"), count_text(host.count, "rank"), used, share, share));
  }
  return texts;
}

}  // namespace runner::train
