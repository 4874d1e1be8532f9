// Durations as text. Thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace runner {

// A measured duration: "3.7 us", "4.2 ms", "1.84 s", "3 min 20 s", "2 h 05 min"; "?" if not finite.
std::string duration_text(double seconds);

// A time limit, not rounded: "600 s", "1.5 s", "250 ms".
std::string limit_text(std::chrono::milliseconds limit);

}  // namespace runner
