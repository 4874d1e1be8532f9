// Commands eval and predict.
#include <filesystem>

#include "runner/cli/commands/commands.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/formats/write.h"
#include "runner/lua/hook_file.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/prediction_text.h"
#include "runner/report/table.h"
#include "runner/train/run/stored_model.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {
namespace {

struct Model {
  ChosenState chosen;
  schema::ReadResult recipe;
  RecordedHook hook;  // the hook with which the weights were trained
  train::StoredModel model;

  Model(const EvalOptions& options, report::Output& out)
      : chosen(load_chosen_state(options, options.run, options.state, out)),
        recipe(recorded_recipe(chosen.run, store_path(options))),
        hook(recorded_hook(chosen.run, recipe.recipe)),
        model(recipe.recipe, lua::load_hooks(recipe.recipe, hook.sources), chosen.state) {}
};

void talk_warnings(const Model& model, report::Output& out) {
  if (model.hook.files == RecordedHook::Files::kChanged) {
    out.talk(report::warning_text(
        fmt::format("the hook {} has changed since the run's last attempt; using the recorded hook", model.hook.file),
        out.talk_color()));
  }
  for (const std::string& text : model.model.warnings()) out.talk(report::warning_text(text, out.talk_color()));
}

bool goes_to_stdout(const std::string& output) {
  return output.empty() || output == "-";
}

// Format of the outputs.
std::string format_of(const PredictOptions& options) {
  if (options.json && goes_to_stdout(options.output)) {
    RUN_CHECK(
        options.format.empty() || options.format == "json", ErrorKind::kUsage,
        "--json conflicts with --format {} on standard output; remove one of them, or write to a file with --output",
        options.format);
    return "json";
  }
  if (!options.format.empty()) return options.format;
  if (options.output.ends_with(".json")) return "json";
  return options.output.ends_with(".npy") ? "npy" : "csv";
}

std::optional<train::OutputsAs> outputs_as(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "logits") return train::OutputsAs::kLogits;
  return name == "classes" ? train::OutputsAs::kClasses : train::OutputsAs::kProbabilities;
}

std::string prediction_in(std::string_view format, const Model& model, const train::Prediction& prediction) {
  if (format == "json") {
    return report::prediction_document(model.chosen.run.run.uid, model.chosen.state.info.id, prediction);
  }
  return format == "npy" ? report::prediction_npy(prediction) : report::prediction_csv(prediction);
}

}  // namespace

int eval(const EvalOptions& options, report::Output& out) {
  Model model(options, out);
  const std::map<std::string, double> metrics =
      about_missing_files(model.chosen.run, store_path(options), [&] { return model.model.evaluate(options.data); });
  talk_warnings(model, out);
  const store::RunRow& run = model.chosen.run.run;
  const store::StateInfo& state = model.chosen.state.info;
  if (options.json) {
    json::Object values(metrics.begin(), metrics.end());
    out.data(json::text(json::Object{
        {"run", run.uid}, {"state", state.id}, {"data", json::or_null(options.data)}, {"metrics", std::move(values)}}));
    return 0;
  }
  out.talk(fmt::format("run {} ({}), state {} of step {}, on {}\n", run.uid, report::on_one_line(run.name), state.id,
                       state.step, options.data.empty() ? "the recipe's evaluation data" : options.data));
  report::KeyValueTable facts;
  for (const auto& [name, value] : metrics) facts.add(name, report::rounded_text(value));
  out.data(facts.render());
  return 0;
}

namespace {

// DATA of idx and npy may be two files.
void check_output(const PredictOptions& options) {
  std::error_code ignored;
  for (const std::string& file : {options.data, options.data.substr(0, options.data.find(','))})
    RUN_CHECK(goes_to_stdout(options.output) || !std::filesystem::equivalent(file, options.output, ignored),
              ErrorKind::kUsage, "--output: {} is the file to predict; choose another file", options.output);
}

}  // namespace

int predict(const PredictOptions& options, report::Output& out) {
  check_output(options);
  const std::string format = format_of(options);
  Model model(options, out);
  const train::Prediction prediction = model.model.predict(options.data, outputs_as(options.as));
  talk_warnings(model, out);
  const std::string text = prediction_in(format, model, prediction);
  if (goes_to_stdout(options.output)) {
    out.data(text);
    return 0;
  }
  formats::write_file(options.output, text);
  out.talk(fmt::format("wrote {}: {}, {}\n", options.output, count_text(prediction.samples, "sample"),
                       report::description(prediction)));
  if (options.json) {
    out.data(json::text(json::Object{{"run", model.chosen.run.run.uid},
                                     {"state", model.chosen.state.info.id},
                                     {"samples", prediction.samples},
                                     {"errors", static_cast<int64_t>(prediction.rejected.size())},
                                     {"content", report::description(prediction)},
                                     {"output", options.output},
                                     {"format", format}}));
  }
  return 0;
}

}  // namespace runner::cli
