// Writes comma-separated values: RFC 4180, but with LF line ends. Thread-safe.
#pragma once

#include <span>
#include <string>

namespace runner::formats {

// Returns one line, quoting fields where necessary.
std::string csv_row(std::span<const std::string> fields);

}  // namespace runner::formats
