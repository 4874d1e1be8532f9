#include <algorithm>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/formats/chrome_trace.h"
#include "runner/formats/write.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/train/run/run.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "store/artifacts.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

struct TraceOptions : RunOptions {
  std::string output;
};

constexpr Argument kTraceArguments[] = {kRunArgument, output_argument(&TraceOptions::output)};

// Returns the cycles of the newest attempt with a trace, in order.
std::vector<store::ArtifactInfo> newest_cycles(store::Store& store, const store::RunRow& run) {
  std::vector<store::ArtifactInfo> cycles = store::list_artifacts(store, run.id);
  std::erase_if(cycles, [](const auto& artifact) { return artifact.header.kind != train::kTraceKind; });
  RUN_CHECK(!cycles.empty(), ErrorKind::kNotFound,
            "run {} has no trace; enable profiling in the recipe, for example `runner exec RECIPE profile.active=3 "
            "profile.repeat=1`",
            run.uid);
  const int64_t newest = std::ranges::max(cycles, {}, &store::ArtifactInfo::attempt).attempt;
  std::erase_if(cycles, [&](const auto& artifact) { return artifact.attempt != newest; });
  return cycles;
}

std::string joined(store::Store& store, const std::vector<store::ArtifactInfo>& cycles) {
  std::vector<std::string> parts;
  for (const store::ArtifactInfo& cycle : cycles) {
    const std::vector<std::byte> bytes = store::read_artifact(store, cycle);
    parts.emplace_back(formats::events_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return formats::trace_document(parts);
}

int trace(const TraceOptions& options, report::Output& out) {
  const bool to_stdout = options.output.empty() || report::is_standard_output(options.output);
  RUN_CHECK(!options.json || !to_stdout, ErrorKind::kUsage,
            "cannot write both --json and the trace to standard output; give a file with --output");
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, options.run);
  const std::vector<store::ArtifactInfo> cycles = newest_cycles(store, run);
  if (!to_stdout) remember_recorded_files(store::show_intact_parts(store, run), store.path());
  const std::string document = joined(store, cycles);
  out.file(options.output.empty() ? "-" : options.output, document, formats::FileKind::kJson);
  if (to_stdout) return 0;
  out.say(fmt::format("wrote {}: {} of attempt {}", options.output, count_text(std::ssize(cycles), "cycle"),
                      cycles.front().attempt));
  if (options.json)
    out.data(json::text(json::Object{{"run", run.uid},
                                     {"attempt", cycles.front().attempt},
                                     {"cycles", static_cast<int64_t>(cycles.size())},
                                     {"last_step", cycles.back().header.step},
                                     {"output", options.output}}));
  return 0;
}

}  // namespace

const Command kTraceCommand{
    .name = "trace",
    .group = Group::kStore,
    .summary = "write the profile of a run as a trace for chrome://tracing and Perfetto",
    .details =
        "The section `profile` of a recipe selects the steps: docs/profiling.md.  The trace has all cycles of\n"
        "the newest attempt that recorded any, with all processes on one time axis.",
    .arguments = kTraceArguments,
    .examples = "runner trace traced -o trace.json",
    .other_names = "profile",
    .has_json = true,
    .action = action<trace>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
