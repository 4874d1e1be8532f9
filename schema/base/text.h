// Small texts that every folder makes in the same way.  Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

// ASCII letters as small ones, whatever the locale; all else as it is.
std::string lower_case(std::string_view text);

// "2026-03-01T12:34:56.789Z": milliseconds since 1970.
std::string utc_time(int64_t ms);

}  // namespace runner
