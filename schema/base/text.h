// Text functions used by all folders. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

// Converts ASCII letters to lower case, independently of the locale.
std::string lower_case(std::string_view text);

// Returns "2026-03-01T12:34:56.789Z" for milliseconds since 1970.
std::string utc_time(int64_t ms);

}  // namespace runner
