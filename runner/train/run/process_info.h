// What the processes of a launcher tell each other at the start: from it follow their numbers, hosts and cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "backends/dist/hosts_group.h"

namespace runner::train {

// Variable with a name of this host in place of its own. Ranks with different names share no memory, even on one
// machine.
inline constexpr const char* kHostVariable = "RUNNER_HOST";

struct ProcessInfo {
  std::string host;     // name
  std::string machine;  // ranks with the same one can share memory
  int64_t pid = 0;
  std::vector<int> cores;                 // that the process may use
  int offered = 0;                        // number of cores for all ranks of the host
  std::string program, command, kernels;  // the same in all processes

  static auto parts(auto& self) {
    return std::tie(self.host, self.machine, self.pid, self.cores, self.offered, self.program, self.command,
                    self.kernels);
  }
};

// `program`: version and build; `command`: command line.
ProcessInfo info_of_this_process(const std::string& program, const std::string& command);

// In the following functions, `all` has an introduction for each rank.

// Throws Error(kUsage) if ranks differ in what must be the same.
void check_same(const std::vector<ProcessInfo>& all);
// Returns the ranks in the order in which ranks of the same machine follow each other, machines by their first ranks.
std::vector<int> order_by_machine(const std::vector<ProcessInfo>& all);
// Returns the hosts of ranks in that order.
std::vector<backends::RankHost> hosts_of(const std::vector<ProcessInfo>& all);
// Returns the cores of each rank. Ranks of a host that may use the same cores divide them.
std::vector<std::vector<int>> cores_of(const std::vector<ProcessInfo>& all);
// Number of cores that the ranks of a host may use together.
size_t cores_in_use(const std::vector<ProcessInfo>& all, const backends::RankHost& host);
// Warns of hosts whose ranks may use fewer cores than are offered.
std::vector<std::string> binding_warnings(const std::vector<ProcessInfo>& all,
                                          const std::vector<backends::RankHost>& hosts);

}  // namespace runner::train
