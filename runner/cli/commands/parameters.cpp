#include <memory>
#include <string>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/table.h"
#include "runner/train/loop/hooks.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "schema/base/unrecorded.h"

namespace runner::cli {
namespace {

// A parameter with the settings under which it is trained.
struct Row {
  const nn::Parameter& parameter;
  const optim::Rule* rule;  // null: frozen
  int32_t group;            // −1: frozen
};

json::Value row_json(const Row& row) {
  const bool frozen = row.rule == nullptr;
  return json::Object{{"name", row.parameter.name},
                      {"shape", json::list_of(row.parameter.shape.dims())},
                      {"elements", row.parameter.elements()},
                      {"frozen", frozen},
                      {"group", frozen ? json::Value() : json::Value(row.group)},
                      {"lr", frozen ? json::Value() : json::Value(row.rule->hyper.lr)},
                      {"weight_decay", frozen ? json::Value() : json::Value(row.rule->hyper.weight_decay)}};
}

int parameters(const RecipeOptions& options, report::Output& out) {
  const schema::ReadResult read = read_recipe_file(options, out);
  const schema::Recipe& recipe = read.recipe;
  const std::unique_ptr<train::Hooks> hooks =
      unrecorded([&] { return usable_hooks(read, lua::hooks_maker({}, printer(out)))(recipe); });
  nn::Model model;
  const train::Optimizers optimizers = unrecorded([&] {
    return in_hook_file([&] {
      const data::Encoding encoding = data::load(recipe, nullptr, true, data::WithoutFiles::kPlan).encoding;
      model = train::make_model(recipe, encoding, hooks.get());
      return train::make_optimizers(recipe, encoding, hooks.get(), model);
    });
  });
  std::vector<Row> rows;
  for (const nn::Parameter& parameter : model.parameters.parameters()) {
    const int32_t group = model.parameters.buffers()[static_cast<size_t>(parameter.buffer)].group;
    rows.push_back({parameter, group < 0 ? nullptr : &optimizers.rule(group), group});
  }
  if (options.json) {
    out.data(json::text(json::list_of(rows, row_json)));
    return 0;
  }
  using enum report::Align;
  report::Table table(
      {{"parameter"}, {"shape"}, {"elements", kRight}, {"group", kRight}, {"lr", kRight}, {"weight decay", kRight}});
  for (const Row& row : rows) {
    const bool frozen = row.rule == nullptr;
    table.add({row.parameter.name, row.parameter.shape.to_string(), std::to_string(row.parameter.elements()),
               frozen ? "frozen" : std::to_string(row.group), frozen ? "" : report::rounded_text(row.rule->hyper.lr),
               frozen ? "" : report::rounded_text(row.rule->hyper.weight_decay)});
  }
  out.colored_data(table.render(out.data_width(), out.data_color()));
  out.say(fmt::format("{}, {} of them trained", count_text(model.parameters.elements(), "number"),
                      model.parameters.trainable_elements()));
  return 0;
}

}  // namespace

const Command kParametersCommand{
    .name = "parameters",
    .group = Group::kRecipe,
    .summary = "list the parameters of a recipe's model",
    .details =
        "Names, shapes, groups with their settings: those of optimizer.groups in their order, then the rest.\n"
        "optimizer.no_decay and layer_decay divide a group whose parameters get different settings.\n"
        "model.freeze and optimizer.groups select by these names; * and ? match any characters.",
    .arguments = kRecipeArguments,
    .examples =
        "runner parameters recipes/digits.yaml\n"
        "runner parameters recipes/digits.yaml --json",
    .other_names = "params",
    .has_json = true,
    .action = action<parameters>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
