// Programs that a command starts and waits for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace runner::cli {

struct ChildStart {
  std::vector<std::string> words;     // the first is the program, which is looked for in PATH if it has no slash
  std::vector<char*> variables = {};  // environment, ended by null; empty: that of this process
  std::filesystem::path in = "/dev/null";
  std::filesystem::path out = {}, messages = {};  // files to create; empty: the streams of this process
  int out_descriptor = -1;                        // to use in place of `out`; -1: none
  bool has_own_group = false;                     // so that Ctrl-C does not reach it
  bool ends_with_parent = false;                  // gets SIGTERM when this process ends, however it ends
};

// Starts the program with no signal blocked, and with the actions of a new program for signals that this one ignores.
// Returns 0 or an errno value.
int start_child(const ChildStart& start, pid_t& child);
// Waits for its end. Returns its status, as waitpid(2).
int wait_for_child(pid_t child);

struct FinishedChild {
  int error = 0;   // errno value if the program could not be started
  int status = 0;  // as waitpid(2)
  std::string out = {}, messages = {};
};

// Starts the program, waits for its end, and returns what it has printed. Throws Error(kRun) without room for temporary
// files.
FinishedChild run_child(ChildStart start);

}  // namespace runner::cli
