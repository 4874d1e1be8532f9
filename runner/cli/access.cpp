#include "runner/cli/access.h"

#include <cstdlib>

namespace runner::cli {

std::filesystem::path store_path(const Options& options) {
  if (!options.db.empty()) return options.db;
  const char* variable = std::getenv("RUNNER_DB");
  return variable != nullptr && *variable != '\0' ? variable : "runner.db";
}

store::Store open_store(const Options& options, store::Access access) {
  return store::Store::open(store_path(options), access);
}

}  // namespace runner::cli
