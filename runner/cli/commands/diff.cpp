#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/comparison.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

struct DiffOptions : RunOptions {
  std::string other_run;
};

constexpr Argument kDiffArguments[] = {{"A", "", "first run", &DiffOptions::run, Kind::kRun},
                                       {"B", "", "second run", &DiffOptions::other_run, Kind::kRun}};

int diff(const DiffOptions& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunDetails a = store::show_intact_parts(store, store::find_run(store, options.run));
  const store::RunDetails b = store::show_intact_parts(store, store::find_run(store, options.other_run));
  const report::Comparison comparison = report::compare(a, b);
  out.colored_data(options.json ? report::comparison_document(comparison)
                                : report::comparison_text(comparison, out.data_width(), out.data_color()));
  for (const store::RunDetails* run : {&a, &b}) {
    for (const store::Damage& damage : run->damage) {
      const std::string text =
          fmt::format("compared without the {} of run {}: {}", damage.part, run->run.uid, damage.message);
      out.colored_talk(report::error_text(text, out.talk_color()));
    }
  }
  return comparison.damage.empty() ? 0 : exit_code(ErrorKind::kStore);
}

}  // namespace

const Command kDiffCommand{
    .name = "diff",
    .group = Group::kStore,
    .summary = "show the differences between two runs",
    .details =
        "Parameters and environment (machine, libraries, variables, git state, texts) that differ, and the\n"
        "newest value of every metric.",
    .arguments = kDiffArguments,
    .examples = "runner diff digits @last",
    .other_names = "compare",
    .has_json = true,
    .action = action<diff>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
