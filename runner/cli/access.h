// The store that a command works on.
#pragma once

#include <filesystem>

#include "runner/cli/command.h"
#include "store/store.h"

namespace runner::cli {

// Path of the store: --db, else RUNNER_DB unless it is empty, else runner.db in the current folder.
std::filesystem::path store_path(const Options& options);

// Throws Error(kStore). Access for reading never creates a store.
store::Store open_store(const Options& options, store::Access access = store::Access::kRead);

}  // namespace runner::cli
