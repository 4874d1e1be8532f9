#include "runner/report/graphs.h"

#include <algorithm>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "store/device_report.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

struct GraphsOptions : RunOptions {
  std::string key;
  bool ir = false;
  bool hlo = false;
};

constexpr Argument kGraphsArguments[] = {
    kRunArgument,
    {"[KEY]", "", "key of a graph, or a unique prefix of it: print the details of that graph", &GraphsOptions::key},
    {"--ir", "", "print the traced nodes of the graph", &GraphsOptions::ir},
    {"--hlo", "", "print the HLO module that the graph is lowered to", &GraphsOptions::hlo}};

std::vector<store::DeviceReport> reports_of(store::Store& store, const store::RunRow& run, bool texts) {
  std::vector<store::DeviceReport> reports = store::read_device_reports(store, run.id, texts);
  RUN_CHECK(!reports.empty() || run.backend == "tpu", ErrorKind::kNotFound,
            "run {} has no compiled graphs: its backend is {}, and only tpu records graphs", run.uid, run.backend);
  RUN_CHECK(!reports.empty(), ErrorKind::kNotFound,
            "run {} has recorded no graphs yet: they are recorded with each state, and at the end", run.uid);
  return reports;
}

struct FoundGraph {
  int64_t attempt;
  const store::GraphRow* row;
};

// Returns the graph whose key begins with `key`, of the newest attempt that has it.
FoundGraph find_graph(std::span<const store::DeviceReport> reports, const std::string& key, const store::RunRow& run) {
  std::vector<FoundGraph> found;
  for (const store::DeviceReport& device : reports)
    for (const store::GraphRow& graph : device.graphs)
      if (graph.key.starts_with(key)) found.push_back({device.attempt, &graph});
  RUN_CHECK(!found.empty(), ErrorKind::kNotFound, "run {} has no graph {}; `runner graphs {}` lists them", run.uid, key,
            run.uid);
  const bool one =
      std::ranges::all_of(found, [&](const FoundGraph& each) { return each.row->key == found[0].row->key; });
  RUN_CHECK(one, ErrorKind::kNotFound,
            "key {} is ambiguous: several graphs of run {} begin with it; use a longer prefix", key, run.uid);
  return found.back();
}

const std::string& text_of(const store::GraphRow& graph, bool hlo) {
  const auto* const texts = graph.texts.get();
  RUN_CHECK(
      texts != nullptr, ErrorKind::kNotFound,
      "the texts of graph {} were not kept: a run with many graphs keeps those of the first and of the newest graphs",
      graph.key);
  return hlo ? texts->hlo : texts->ir;
}

int graphs(const GraphsOptions& options, report::Output& out) {
  const bool texts = options.ir || options.hlo;
  RUN_CHECK(!options.ir || !options.hlo, ErrorKind::kUsage, "--ir conflicts with --hlo; use one of them");
  RUN_CHECK(!texts || !options.key.empty(), ErrorKind::kUsage,
            "{} needs the key of a graph; `runner graphs {}` lists the keys", options.ir ? "--ir" : "--hlo",
            options.run);
  RUN_CHECK(!options.json || !texts, ErrorKind::kUsage, "--json conflicts with --ir and --hlo");
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, options.run);
  std::vector<store::DeviceReport> reports = reports_of(store, run, texts);
  if (!options.key.empty()) {
    const auto [attempt, graph] = find_graph(reports, options.key, run);
    if (options.json) {
      out.data(report::graphs_document(std::vector<store::DeviceReport>{{attempt, {*graph}, ""}}));
    } else {
      texts ? out.data(text_of(*graph, options.hlo)) : out.colored_data(report::graph_text(*graph, out.data_color()));
    }
    return 0;
  }
  out.colored_data(options.json ? report::graphs_document(reports)
                                : report::graphs_text(reports, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace

const Command kGraphsCommand{
    .name = "graphs",
    .group = Group::kStore,
    .summary = "list the graphs that an emulated TPU compiled, with the reasons",
    .details =
        "One row for each compilation, over all attempts: the training batch at which the graph first ran, how\n"
        "often it ran, its size, its memory and the predicted time of a step on the device.",
    .arguments = kGraphsArguments,
    .examples =
        "runner graphs on-tpu\n"
        "runner graphs on-tpu --json",
    .has_json = true,
    .action = action<graphs>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
