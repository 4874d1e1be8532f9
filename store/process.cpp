#include "store/process.h"

#include <array>
#include <ctime>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

namespace runner::store {
namespace {

constexpr int64_t kSilenceMs = 60'000;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(path, target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<size_t>(size)) : std::string();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Start time in clock ticks, or -1 if the process does not exist or is a zombie.
int64_t start_ticks(int64_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid));
  // Field 2, the program name in parentheses, may contain any character. Field 3 is the state, field 22 the start time.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return -1;
  for (int number = 4; number <= 22; ++number) fields >> field;
  return fields ? std::stoll(field) : -1;
}

Process read_this_process() {
  const auto pid = static_cast<int64_t>(::getpid());
  return {host_name(), first_line("/proc/sys/kernel/random/boot_id"), link_target("/proc/self/ns/pid"), pid,
          start_ticks(pid)};
}

// Whether the fields from /proc are present.
bool is_known(const Process& process) {
  return !process.boot_id.empty() && process.start_ticks >= 0;
}

}  // namespace

const Process& this_process() {
  thread_local Process process;
  if (process.pid != ::getpid()) process = read_this_process();
  return process;
}

double seconds_since_process_start() {
  const double started = static_cast<double>(this_process().start_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - started;
}

bool is_running(const Process& process, int64_t heartbeat_ms, int64_t at_ms) {
  const Process& self = this_process();
  const bool shows_life = at_ms - heartbeat_ms < kSilenceMs;
  if (!is_known(process) || !is_known(self)) return shows_life;
  const bool same_kernel = process.boot_id == self.boot_id;
  if (same_kernel && process.pid_namespace == self.pid_namespace) {
    return start_ticks(process.pid) == process.start_ticks;
  }
  if (!same_kernel && process.host == self.host) return false;  // the host was rebooted since
  return shows_life;
}

}  // namespace runner::store
