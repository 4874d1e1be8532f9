// rm, gc.
#include <algorithm>

#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/format.h"
#include "schema/json.h"
#include "store/queries.h"
#include "store/removal.h"

namespace runner::cli {

int rm(const Options& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kWrite);
  std::vector<store::RunRow> runs;  // all are found before the first is removed
  for (const std::string& selector : options.runs) {
    store::RunRow run = store::find_run(store, selector);
    const auto same = [&](const store::RunRow& other) { return other.id == run.id; };
    if (std::none_of(runs.begin(), runs.end(), same)) runs.push_back(std::move(run));
  }
  json::List removed;
  for (const store::RunRow& run : runs) {
    store::remove_run(store, run.id);
    removed.push_back(run.uid);
    out.talk(fmt::format("removed run {} ({})\n", run.uid, run.name));
  }
  if (options.json) out.data(json::text(json::Object{{"removed", removed}}));
  return 0;
}

int gc(const Options& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kWrite);
  const int64_t bytes = store::collect_garbage(store);
  out.talk(fmt::format("{} became {} smaller\n", store.path().string(), report::bytes_text(bytes)));
  if (options.json) out.data(json::text(json::Object{{"bytes", bytes}}));
  return 0;
}

}  // namespace runner::cli
