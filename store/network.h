// Network file systems, on which the locks of SQLite cannot be trusted (docs/decisions/103-network-stores.md).
//
// Thread-safe, as long as no thread changes the environment.
#pragma once

#include <filesystem>
#include <string>

namespace runner::store {

// Returns the name of the network file system of a file, such as "nfs", or "" if it is on a local one. The file need
// not exist. The environment variable RUNNER_NETWORK_STORE overrides the table: "0" means that no file system is a
// network one, anything else is a list of folders, separated by colons, that are on one.
std::string network_file_system(const std::filesystem::path& file);

}  // namespace runner::store
