// eval, predict.
#include "runner/cli/chosen_state.h"
#include "runner/cli/commands/commands.h"
#include "runner/formats/write.h"
#include "runner/report/format.h"
#include "runner/report/prediction_text.h"
#include "runner/report/table.h"
#include "runner/train/stored_model.h"
#include "schema/json.h"
#include "schema/recipe_reader.h"

namespace runner::cli {
namespace {

struct Model {
  ChosenState chosen;
  schema::ReadResult recipe;
  train::StoredModel model;

  explicit Model(const Options& options)
      : chosen(load_chosen_state(options)),
        recipe(schema::read_resolved(chosen.run.recipe.resolved_json)),
        model(recipe.recipe, chosen.state) {}
};

void talk_warnings(const Model& model, report::Output& out) {
  for (const std::string& text : model.model.warnings()) out.talk(fmt::format("warning: {}\n", text));
}

std::string prediction_in(std::string_view format, const Model& model, const train::Prediction& prediction) {
  if (format == "json") {
    return report::prediction_document(model.chosen.run.run.uid, model.chosen.state.info.id, prediction);
  }
  return format == "npy" ? report::prediction_npy(prediction) : report::prediction_csv(prediction);
}

}  // namespace

int eval(const Options& options, report::Output& out) {
  Model model(options);
  const std::map<std::string, double> metrics = model.model.evaluate(options.data);
  talk_warnings(model, out);
  if (options.json) {
    json::Object values(metrics.begin(), metrics.end());
    out.data(json::text(json::Object{
        {"run", model.chosen.run.run.uid}, {"state", model.chosen.state.info.id}, {"metrics", std::move(values)}}));
    return 0;
  }
  report::Facts facts;
  for (const auto& [name, value] : metrics) facts.add(name, report::rounded_text(value));
  out.data(facts.render());
  return 0;
}

int predict(const Options& options, report::Output& out) {
  Model model(options);
  const train::Prediction prediction = model.model.predict(options.data);
  talk_warnings(model, out);
  const std::string text = prediction_in(options.json ? "json" : options.format, model, prediction);
  if (options.output.empty()) {
    out.data(text);
  } else {
    formats::write_file(options.output, text);
    out.talk(fmt::format("wrote {}: {}\n", options.output, report::count_text(prediction.samples, "sample")));
  }
  return 0;
}

}  // namespace runner::cli
