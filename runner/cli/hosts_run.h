// `--hosts`: runs a command on other machines, and continues a run there that has lost a process or a host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/report/output.h"

namespace runner::cli {

// Runs this command line, without its option --hosts, on the hosts. If a begun run loses a process or a host, continues
// it up to max_restarts times on the hosts that answer. Prints the last result; returns its exit code. The first
// SIGINT, SIGTERM or SIGHUP asks the ranks to save a state; the second ends them; neither continues the run. Throws
// Error(kRun) if the run is lost.
int run_on_hosts(std::string_view hosts, const std::vector<std::string>& words, report::Output& out);

}  // namespace runner::cli
