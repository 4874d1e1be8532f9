#include "runner/cli/store_access.h"

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

store::LoadedState load_state(store::Store& store, const store::RunRow& run, int64_t id) {
  for (const store::StateInfo& state : store::list_states(store, run.id)) {
    if (id == Options::kNotGiven ? !state.superseded : state.id == id) return store::load_state(store, state.id);
  }
  RUN_CHECK(id == Options::kNotGiven, ErrorKind::kNotFound,
            "run {} has no state {}; `runner states {}` lists its states", run.uid, id, run.uid);
  fail(ErrorKind::kNotFound, "run {} has no state yet; `runner exec` saves one at the end", run.uid);
}

ChosenState load_chosen_state(const Options& options, const std::string& run, int64_t state) {
  store::Store store = open_store(options);
  const store::RunRow found = store::find_run(store, run);
  return {store::show_run(store, found), load_state(store, found, state)};
}

}  // namespace runner::cli
