// tag, note.
#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "schema/json.h"
#include "store/queries.h"

namespace runner::cli {

int tag(const Options& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kWrite);
  const store::RunRow run = store::find_run(store, options.run);
  options.remove ? store::remove_tag(store, run.id, options.tag) : store::add_tag(store, run.id, options.tag);
  out.talk(fmt::format("run {} {} {}\n", run.uid, options.remove ? "lost the tag" : "is tagged", options.tag));
  if (options.json) out.data(json::text(json::Object{{"run", run.uid}, {"tag", options.tag}}));
  return 0;
}

int note(const Options& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kWrite);
  const store::RunRow run = store::find_run(store, options.run);
  store::add_note(store, run.id, options.text);
  out.talk(fmt::format("noted with run {}\n", run.uid));
  if (options.json) out.data(json::text(json::Object{{"run", run.uid}, {"note", options.text}}));
  return 0;
}

}  // namespace runner::cli
