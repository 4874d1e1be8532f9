#include <optional>

#include "runner/cli/command.h"
#include "runner/cli/spooling.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

struct IngestOptions : Options {
  std::vector<std::string> files;
};

constexpr Argument kIngestArguments[] = {
    {"[SPOOL ...]", "", "spools, or stores of other machines; default: the spools of the store that are left",
     &IngestOptions::files}};

const char* word_of(store::IngestResult result) {
  switch (result) {
    case store::IngestResult::kCopied: return "copied";
    case store::IngestResult::kUnchanged: return "unchanged";
    case store::IngestResult::kOlder: break;
  }
  return "older";
}

json::Object document_of(const store::IngestedRun& run, const fs::path& file) {
  return {{"run", run.uid},
          {"name", run.name},
          {"file", file.string()},
          {"result", word_of(run.result)},
          {"states", run.states}};
}

int ingest(const IngestOptions& options, report::Output& out) {
  const fs::path store = store_path(options);
  std::vector<fs::path> files(options.files.begin(), options.files.end());
  if (files.empty()) files = store::spools_of(store);
  if (files.empty()) out.say(fmt::format("no spool of the store {} is left on this machine", store.string()));
  json::List runs;
  std::optional<Error> failure;  // the other files are ingested nevertheless
  for (const fs::path& file : files) {
    try {
      const IngestedFile ingested = ingest_file(file, store);
      if (ingested.is_in_use)
        out.say(fmt::format("{} is the spool of a running process, which ingests it itself", file.string()));
      for (const store::IngestedRun& run : ingested.runs) {
        out.say(ingested_text(run, file));
        runs.emplace_back(document_of(run, file));
      }
    } catch (const Error& error) {
      if (failure) out.say(fmt::format("error: {}", error.message()));
      if (!failure) failure = error;
    }
  }
  if (failure) throw Error(*failure);
  if (options.json) out.data(json::text(json::Object{{"store", store.string()}, {"runs", std::move(runs)}}));
  return 0;
}

}  // namespace

const Command kIngestCommand{
    .name = "ingest",
    .group = Group::kStore,
    .summary = "copy runs from spools, or from the store of another machine, into the store",
    .details =
        "A run whose store is on a network file system is recorded in a spool on a local disk.  Spools that\n"
        "could not be ingested at the end of the run stay on the machine that trained it; without arguments,\n"
        "all spools of the store are ingested and then removed.  Other files are not changed.  Runs are\n"
        "recognised by their id, and only what is new is copied, so the same file can be ingested again.",
    .arguments = kIngestArguments,
    .examples =
        "runner ingest\n"
        "runner exec recipes/digits.yaml train.epochs=1 --db cluster.db\n"
        "runner ingest cluster.db",
    .other_names = "merge import",
    .has_json = true,
    .action = action<ingest>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
