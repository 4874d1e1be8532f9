// Comma-separated values, RFC 4180 with newlines for line ends.  Thread-safe.
#pragma once

#include <span>
#include <string>

namespace runner::formats {

// One line; fields that need quotes get them.
std::string csv_line(std::span<const std::string> fields);

}  // namespace runner::formats
