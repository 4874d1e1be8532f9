#include <algorithm>

#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "schema/base/clock.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "store/compiled_graphs.h"
#include "store/removal.h"

namespace runner::cli {
namespace {

struct GcOptions : Options {
  int64_t grace = 30;  // in days
};

constexpr Argument kGcArguments[] = {
    {"--grace", "DAYS", "delete runs that have been in the trash for DAYS days; default: 30", &GcOptions::grace}};

int64_t grace_ms(const GcOptions& options) {
  constexpr int64_t kDayMs = int64_t{24} * 3'600'000, kMaxDays = 1'000'000;
  return std::min(options.grace, kMaxDays) * kDayMs;
}

// Prints how much space gc cannot release, and why.
void talk_kept_space(store::Store& store, const GcOptions& options, report::Output& out) {
  const store::TrashUse trash = store::trash_use(store);
  if (trash.runs > 0)
    out.say(with_store_option(
        fmt::format("{} with {} {} in the trash until {}; `runner gc --grace 0` deletes {} now",
                    count_text(trash.runs, "run"), report::bytes_text(trash.bytes), trash.runs == 1 ? "is" : "are",
                    utc_time(trash.newest_ms + grace_ms(options)).substr(0, 10), trash.runs == 1 ? "it" : "them"),
        options));
  if (const int64_t held = store::held_bytes(store); held > 0)
    out.say(
        fmt::format("another process reads the store; {} are released when it has ended", report::bytes_text(held)));
}

int gc(const GcOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  store.check_file();  // SQLite reports some damage as a full disk
  const store::PurgeResult emptied = store::empty_trash(store, grace_ms(options));
  for (const std::string& run : emptied.removed) out.say(fmt::format("removed run {}", run));
  for (const auto& [run, reason] : emptied.kept) out.say(fmt::format("kept run {} in the trash: {}", run, reason));
  const int64_t graphs = store::trim_compiled_graphs(store);
  if (graphs > 0)
    out.say(fmt::format("removed {} that no run has used recently", count_text(graphs, "compiled graph")));
  const int64_t bytes = store::collect_garbage(store);
  out.say(bytes > 0 ? fmt::format("{}: released {}", store.path().string(), report::bytes_text(bytes))
                    : fmt::format("{}: no free space to release", store.path().string()));
  talk_kept_space(store, options, out);
  if (options.json)
    out.data(json::text(
        json::Object{{"bytes", bytes},
                     {"purged", json::list_of(emptied.removed)},
                     {"compiled_graphs", graphs},
                     {"kept", json::list_of(emptied.kept, [](const auto& kept) { return json::Value(kept.uid); })}}));
  return 0;
}

}  // namespace

const Command kGcCommand{
    .name = "gc",
    .group = Group::kStore,
    .summary = "delete old runs from the trash, and release free space",
    .details =
        "Also deletes compiled graphs (tpu.persistent_cache) that no run has used for 30 days.  The space of\n"
        "deleted runs and states is returned to the file system.  A damaged store is reported, not changed.",
    .arguments = kGcArguments,
    .examples =
        "runner gc\n"
        "runner gc --grace 0",
    .other_names = "clean",
    .has_json = true,
    .action = action<gc>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
