// `--hosts a:2,b:2`: command lines that start the ranks of a run on other machines, by the mpirun of an MPI library
// over ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/mpi/mpi_network.h"

namespace runner::cli {

struct HostSlots {
  std::string name;
  int ranks = 1;
};

// Parses "a,b:2". Throws Error(kUsage) for an empty name, a number of ranks below 1, or more ranks than a run can
// have.
std::vector<HostSlots> parse_hosts(std::string_view text);

int ranks_of(const std::vector<HostSlots>& hosts);

// The program of an MPI library that starts processes on other hosts.
struct RemoteLauncher {
  backends::MpiModule module;
  std::string program;
};

// Returns the mpirun of the library that RUNNER_MPI names, or else of the first one that this build can use. Throws
// Error(kUsage) if there is none.
RemoteLauncher choose_launcher();

// Returns the command line that starts `program` with `words` on the hosts, as ranks of one run. `variables`: names of
// environment variables that the ranks get.
std::vector<std::string> launch_command(const RemoteLauncher& launcher, const std::vector<HostSlots>& hosts,
                                        const std::vector<std::string>& variables, const std::string& program,
                                        const std::vector<std::string>& words);

}  // namespace runner::cli
