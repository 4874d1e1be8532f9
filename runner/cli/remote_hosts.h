// `--hosts a:2,b:2`: starts the ranks of a run on other machines, by the mpirun of an MPI library over ssh.
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

// Parses "a,b:2". Throws Error(kUsage) for an empty name or a number of ranks below 1.
std::vector<HostSlots> parse_hosts(std::string_view text);

// Returns the command line that starts `program` with `words` on the hosts, as ranks of one run. `module`: of the MPI
// library; `launcher`: its mpirun; `variables`: names of environment variables that the ranks get.
std::vector<std::string> launch_command(const std::vector<HostSlots>& hosts, const backends::MpiModule& module,
                                        const std::string& launcher, const std::vector<std::string>& variables,
                                        const std::string& program, const std::vector<std::string>& words);

// Runs this command line, without its option --hosts, on the hosts. Returns the exit code of the launcher. The first
// SIGINT, SIGTERM or SIGHUP asks the ranks to save a state; the second ends them.
int run_on_hosts(std::string_view hosts, const std::vector<std::string>& words);

}  // namespace runner::cli
