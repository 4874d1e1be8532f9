// Which store a command works on.
#pragma once

#include <filesystem>

#include "runner/cli/command.h"
#include "store/store.h"

namespace runner::cli {

// --db, else RUNNER_DB unless empty, else runner.db in the current folder.
std::filesystem::path store_path(const Options& options);

// Throws Error(kStore); reading never makes a store.
store::Store open_store(const Options& options, store::Access access = store::Access::kRead);

}  // namespace runner::cli
