// Which process works on a run, and whether it still does.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace runner::store {

// Enough to tell a process from any later one with the same number.
struct Process {
  std::string host;
  std::string boot_id;        // of the kernel's current boot
  std::string pid_namespace;  // process numbers mean nothing outside of it
  int64_t pid = 0;
  int64_t start_ticks = 0;  // of sysconf(_SC_CLK_TCK), since boot (CLOCK_BOOTTIME); -1: unknown

  bool operator==(const Process&) const = default;
};

// This process.  Reads three files of /proc and keeps the answer; a forked child reads them anew.
const Process& this_process();

// Whether `process` is running.  What cannot be looked up from here (another host or container, or no /proc there or
// here) counts as running while its last sign of life is less than a minute old at `at_ms`.
bool is_running(const Process& process, int64_t heartbeat_ms, int64_t at_ms);

// Milliseconds since 1970, UTC.
int64_t now_ms();
// The same as of the last tick, some milliseconds ago: read from memory, where now_ms() may be a system call.
int64_t coarse_now_ms();

}  // namespace runner::store
