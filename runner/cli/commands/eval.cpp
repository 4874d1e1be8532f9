#include "runner/cli/commands/shared_options.h"
#include "runner/cli/loaded_model.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/table.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

constexpr Argument kEvalArguments[] = {
    kRunArgument,
    {"[DATA]", "",
     "data file in the format of the recipe's data, or FEATURES,LABELS for idx and npy; default: the recipe's "
     "evaluation data",
     &DataOptions::data_argument},
    kDataOption,
    kStateArgument};

int eval(const DataOptions& options, report::Output& out) {
  const std::string data = options.data();
  LoadedModel model(options, out);
  const std::map<std::string, double> metrics =
      about_missing_files(model.chosen.run, store_path(options), {}, [&] { return model.model.evaluate(data); });
  model.talk_warnings(out);
  const store::RunRow& run = model.chosen.run.run;
  const store::StateInfo& state = model.chosen.state.info;
  if (options.json) {
    json::Object values(metrics.begin(), metrics.end());
    out.data(json::text(json::Object{
        {"run", run.uid}, {"state", state.id}, {"data", json::or_null(data)}, {"metrics", std::move(values)}}));
    return 0;
  }
  out.say(fmt::format("run {} ({}), state {} of step {}, on {}", run.uid, run.name, state.id, state.step,
                      data.empty() ? "the recipe's evaluation data" : data));
  report::KeyValueTable facts;
  for (const auto& [name, value] : metrics) facts.add(name, report::rounded_text(value));
  out.data(facts.render());
  return 0;
}

}  // namespace

const Command kEvalCommand{
    .name = "eval",
    .group = Group::kTrain,
    .summary = "compute the metrics of a run's model on data",
    .details = "",
    .arguments = kEvalArguments,
    .examples =
        "runner eval @last\n"
        "runner eval digits --data more-digits.csv --json",
    .other_names = "evaluate",
    .has_json = true,
    .action = action<eval>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
