// Commands rm, restore and gc.
#include <algorithm>

#include "runner/cli/commands/commands.h"
#include "runner/cli/store_access.h"
#include "runner/report/format.h"
#include "schema/base/clock.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "store/compiled_graphs.h"
#include "store/queries.h"
#include "store/removal.h"
#include "store/run_selection.h"

namespace runner::cli {

namespace {

constexpr int64_t kDayMs = int64_t{24} * 3'600'000;

// Finds all runs before any is changed; returns each only once.
std::vector<store::RunRow> find_all(store::Store& store, const std::vector<std::string>& selectors,
                                    store::Trash trash) {
  std::vector<store::RunRow> runs;
  for (const std::string& selector : selectors) {
    for (store::RunRow& run : store::find_runs(store, selector, trash)) {
      const auto same = [&](const store::RunRow& other) { return other.id == run.id; };
      if (std::none_of(runs.begin(), runs.end(), same)) runs.push_back(std::move(run));
    }
  }
  return runs;
}

// The runs that `rm` names: by selectors, or by a condition.
std::vector<store::RunRow> runs_to_remove(store::Store& store, const RmOptions& options) {
  RUN_CHECK(options.runs.empty() != options.where.empty(), ErrorKind::kUsage,
            "rm: expected runs or --where CONDITION, {}", options.runs.empty() ? "got neither" : "got both");
  if (options.where.empty())
    return find_all(store, options.runs, options.purge ? store::Trash::kIncluded : store::Trash::kHidden);
  std::vector<store::RunRow> runs = store::select_runs(store, {.where = options.where}).runs;
  RUN_CHECK(!runs.empty(), ErrorKind::kNotFound, "no run matches {}", options.where);
  return runs;
}

// What holds space that gc cannot release.
void tell_of_kept_space(store::Store& store, const GcOptions& options, report::Output& out) {
  const store::TrashUse trash = store::trash_use(store);
  if (trash.runs > 0)
    out.talk(fmt::format("{} with {} {} in the trash until {}; `runner gc --grace 0` deletes {} now\n",
                         count_text(trash.runs, "run"), report::bytes_text(trash.bytes), trash.runs == 1 ? "is" : "are",
                         utc_time(trash.newest_ms + std::min<int64_t>(options.grace, 1'000'000) * kDayMs).substr(0, 10),
                         trash.runs == 1 ? "it" : "them"));
  if (const int64_t held = store::held_bytes(store); held > 0)
    out.talk(
        fmt::format("another process reads the store; {} are released when it has ended\n", report::bytes_text(held)));
}

json::List ids_of(const std::vector<store::RunRow>& runs) {
  return json::list_of(runs, [](const store::RunRow& run) { return json::Value(run.uid); });
}

}  // namespace

int rm(const RmOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  auto runs = runs_to_remove(store, options);
  // Newest first, so that a fork is removed before its parent, on which it depends.
  if (options.purge) std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id > b.id; });
  for (const store::RunRow& run : runs) {
    options.purge ? store::remove_run(store, run.id) : store::trash_run(store, run.id);
    out.talk(options.purge ? fmt::format("removed run {} ({})\n", run.uid, run.name)
                           : fmt::format("run {} ({}) is in the trash; `runner restore {}` restores it\n", run.uid,
                                         run.name, run.uid));
  }
  if (options.json) out.data(json::text(json::Object{{"removed", ids_of(runs)}, {"purged", options.purge}}));
  return 0;
}

int restore(const RunsOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  const auto runs = find_all(store, options.runs, store::Trash::kOnly);
  for (const store::RunRow& run : runs) {
    store::restore_run(store, run.id);
    out.talk(fmt::format("restored run {} ({})\n", run.uid, run.name));
  }
  if (options.json) out.data(json::text(json::Object{{"restored", ids_of(runs)}}));
  return 0;
}

int gc(const GcOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  store.check_file();  // SQLite reports some damage as a full disk
  const store::PurgeResult emptied = store::empty_trash(store, std::min<int64_t>(options.grace, 1'000'000) * kDayMs);
  for (const std::string& run : emptied.removed) out.talk(fmt::format("removed run {}\n", run));
  for (const auto& [run, reason] : emptied.kept) out.talk(fmt::format("kept run {} in the trash: {}\n", run, reason));
  const int64_t graphs = store::trim_compiled_graphs(store);
  if (graphs > 0)
    out.talk(fmt::format("removed {} that no run has used recently\n", count_text(graphs, "compiled graph")));
  const int64_t bytes = store::collect_garbage(store);
  out.talk(bytes > 0 ? fmt::format("{}: released {}\n", store.path().string(), report::bytes_text(bytes))
                     : fmt::format("{}: no free space to release\n", store.path().string()));
  tell_of_kept_space(store, options, out);
  if (options.json)
    out.data(json::text(
        json::Object{{"bytes", bytes},
                     {"purged", json::list_of(emptied.removed)},
                     {"compiled_graphs", graphs},
                     {"kept", json::list_of(emptied.kept, [](const auto& kept) { return json::Value(kept.uid); })}}));
  return 0;
}

}  // namespace runner::cli
