// Identifies the process that executes a run and tells whether it is still running. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace runner::store {

// Identifies a process uniquely, even after its pid has been reused.
struct Process {
  std::string host;
  std::string boot_id;        // /proc/sys/kernel/random/boot_id
  std::string pid_namespace;  // /proc/self/ns/pid; pids are only comparable within one namespace
  int64_t pid = 0;
  int64_t start_ticks = 0;  // clock ticks (_SC_CLK_TCK) from boot to the start of the process; -1 if unknown

  bool operator==(const Process&) const = default;
};

// Returns the calling process. Reads three files of /proc and caches the result per thread; a forked child reads again.
const Process& this_process();

// Seconds since the kernel started the calling process.
double seconds_since_process_start();

// Returns whether `process` is running. A process on another host, in another container, or without /proc cannot be
// looked up. It counts as running if its heartbeat is less than a minute old at `at_ms`.
bool is_running(const Process& process, int64_t heartbeat_ms, int64_t at_ms);

}  // namespace runner::store
