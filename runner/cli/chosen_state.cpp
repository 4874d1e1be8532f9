#include "runner/cli/chosen_state.h"

#include "runner/cli/access.h"

namespace runner::cli {
namespace {

store::LoadedState load_named(store::Store& store, const store::RunDetails& details, int64_t id) {
  for (const store::StateInfo& state : details.states) {
    if (state.id == id) return store::load_state(store, id);
  }
  fail(ErrorKind::kNotFound, "run {} has no state {}; `runner states {}` lists its states", details.run.uid, id,
       details.run.uid);
}

store::LoadedState load_newest(store::Store& store, const store::RunDetails& details) {
  for (const store::StateInfo& state : details.states) {
    if (!state.superseded) return store::load_state(store, state.id);
  }
  fail(ErrorKind::kNotFound, "run {} has no state yet; `runner exec` saves one at the end", details.run.uid);
}

}  // namespace

ChosenState load_chosen_state(store::Store& store, const store::RunRow& run, int64_t id) {
  ChosenState chosen;
  chosen.run = store::show_run(store, run);
  chosen.state = id == Options::kNotGiven ? load_newest(store, chosen.run) : load_named(store, chosen.run, id);
  return chosen;
}

ChosenState load_chosen_state(const Options& options) {
  store::Store store = open_store(options);
  return load_chosen_state(store, store::find_run(store, options.run), options.state);
}

}  // namespace runner::cli
