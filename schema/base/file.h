// Reads files. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace runner {

// Returns the contents of a file, or nullopt if it cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

}  // namespace runner
