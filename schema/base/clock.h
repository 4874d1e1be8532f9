// Wall-clock times as milliseconds since 1970, UTC, and a clock for durations. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace runner {

// Current time.
int64_t now_ms();
// The same at the last kernel tick, a few ms ago. Reads memory only, whereas now_ms() may be a system call.
int64_t coarse_now_ms();

// Seconds since some moment, at the last kernel tick. Setting the system's time does not change it.
double coarse_seconds();

// Returns "2026-03-01T12:34:56.789Z".
std::string utc_time(int64_t ms);

}  // namespace runner
