// What rank 0 and the program that has started it by mpirun (--hosts) know of each other. The program continues a run
// that has lost a process, so it must learn how the run ended. Standard output is the only stream from rank 0 that
// every mpirun passes on: a report is a line of JSON after a record separator (RFC 7464). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner::cli {

// Earlier attempts of the launching program; in the environment of the ranks.
struct EarlierAttempts {
  std::string run = {};                // id of the run to continue; empty: none
  std::vector<std::string> lost = {};  // warnings about lost processes, oldest first
  int64_t processes = 0;               // with which the run continues; 0: as many as before
};

// Sets the variable, for programs that this one starts.
void pass_on(const EarlierAttempts& earlier);
// Removes the variable, so that programs that this one starts do not have it. Returns nullopt if there is none.
std::optional<EarlierAttempts> take_earlier_attempts();
// Returns what the first call has taken; null if this program was not started by --hosts.
const EarlierAttempts* earlier_attempts();

struct BegunRun {
  std::string run, name;
  int64_t max_restarts = 0;
};

struct EndedRun {
  int exit_code = 0;
  bool lost_process = false;
  std::string message;      // the error; empty if there is none
  std::string error, data;  // to print on standard error and standard output
};

std::string report_of_connection();  // of all ranks
std::string report_of(const BegunRun& begun);
std::string report_of(const EndedRun& ended);
// Writes a report to standard output.
void send(std::string_view report);

// Separates the reports from the other output of rank 0.
class LaunchReports {
 public:
  explicit LaunchReports(std::string_view output);

  bool connected() const { return is_connected_; }
  const std::optional<BegunRun>& begun() const { return begun_; }
  const std::optional<EndedRun>& ended() const { return ended_; }
  const std::string& rest() const { return rest_; }

 private:
  void read(std::string_view report);

  bool is_connected_ = false;
  std::optional<BegunRun> begun_;
  std::optional<EndedRun> ended_;
  std::string rest_;
};

}  // namespace runner::cli
