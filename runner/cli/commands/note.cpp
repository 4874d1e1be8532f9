#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "schema/base/utf8.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

struct NoteOptions : RunOptions {
  std::string text;
};

constexpr Argument kNoteArguments[] = {kRunArgument, {"TEXT", "", "text to keep with the run", &NoteOptions::text}};

int note(const NoteOptions& options, report::Output& out) {
  RUN_CHECK(is_utf8(options.text), ErrorKind::kUsage, "invalid note: expected UTF-8 text");
  store::Store store = open_store(options, store::Access::kEdit);
  const store::RunRow run = store::find_run(store, options.run);
  store::add_note(store, run.id, options.text);
  out.say(fmt::format("added the note to run {}", run.uid));
  if (options.json) out.data(json::text(json::Object{{"run", run.uid}, {"note", options.text}}));
  return 0;
}

}  // namespace

const Command kNoteCommand{
    .name = "note",
    .group = Group::kStore,
    .summary = "add a note to a run",
    .details = "",
    .arguments = kNoteArguments,
    .examples = "runner note @last \"learning rate too high\"",
    .has_json = true,
    .action = action<note>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
