#include <algorithm>
#include <exception>
#include <optional>

#include <fmt/format.h>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/data/order.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/forecast_text.h"
#include "runner/report/output.h"
#include "runner/report/plan_text.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/start_warnings.h"
#include "runner/train/loop/step_check.h"
#include "runner/train/step/device_rules.h"
#include "schema/base/unrecorded.h"

namespace runner::cli {
namespace {

struct PlanOptions : RecipeOptions {
  bool batches = false;
  int64_t epochs = kNotGiven;  // default: 1
};

constexpr Argument kPlanArguments[] = {
    kRecipeArgument,
    kOverridesArgument,
    {"--batches", "", "with --json: print the sample indices of every batch", &PlanOptions::batches},
    {.name = "--epochs",
     .value = "N",
     .text = "with --batches: print the first N epochs; default: 1",
     .target = &PlanOptions::epochs,
     .at_least = 1}};

constexpr int64_t kMaxIndices = 100'000'000;  // about a gigabyte of text

void check_options(const PlanOptions& options) {
  RUN_CHECK(!options.batches || options.json, ErrorKind::kUsage, "--batches needs --json");
  RUN_CHECK(options.epochs == Options::kNotGiven || options.batches, ErrorKind::kUsage,
            "--epochs needs --batches; set the epochs of training with train.epochs=N");
}

int64_t epochs_to_print(const PlanOptions& options, const data::DataPlan& plan) {
  const int64_t epochs = options.epochs == Options::kNotGiven ? 1 : options.epochs;
  const int64_t indices = std::max<int64_t>(1, plan.samples_per_epoch() + plan.repeats_per_epoch());
  const int64_t most = kMaxIndices / indices;
  RUN_CHECK(most > 0, ErrorKind::kUsage,
            "--batches: an epoch has {} indices, but at most {} can be printed; omit --batches or use fewer samples",
            indices, kMaxIndices);
  RUN_CHECK(epochs <= most, ErrorKind::kUsage, "--epochs: expected at most {1} epochs of {2} indices, got {0}", epochs,
            most, indices);
  return epochs;
}

// Warnings that `runner exec` would print before the first step.
std::vector<std::string> warnings_of(const schema::ReadResult& recipe, const train::Session& session,
                                     const std::optional<train::RunForecast>& forecast) {
  std::vector<std::string> warnings = train::start_warnings(recipe);
  const std::vector<std::string> of_device =
      forecast ? report::forecast_warnings(*forecast) : std::vector<std::string>();
  for (const auto& more : {session.data.warnings, session.plan_warnings(), of_device}) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  return warnings;
}

constexpr std::string_view kUnknown = "unknown before the run: ";

std::string message_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.message();
  }
}

// Loads its own hooks, because a hook creates a model only once.
std::optional<train::RunForecast> graphs_of(const train::Session& session, const train::Print& print) {
  if (!train::device_rules(session.recipe).traces_graphs) return std::nullopt;
  const std::unique_ptr<train::Hooks> hooks = lua::load_hooks(session.recipe, {}, print);
  return train::forecast_graphs(session.recipe, session.data, session.plan, *session.device, hooks.get());
}

// Throws if the model does not fit the data. A forecast of graphs reports such errors itself.
report::PlanForecast forecast_of(train::Session& session, train::Hooks* hooks, const train::MakeHooks& make_hooks,
                                 const train::Print& print, std::vector<std::string>& warnings) {
  report::PlanForecast forecast{.graphs = graphs_of(session, print)};
  if (forecast.graphs && !forecast.graphs->unknown.empty()) {
    forecast.unknown = fmt::format("{}see below", kUnknown);
    return forecast;
  }
  const train::StepCheck check = in_hook_file([&] { return train::check_steps(session, hooks, make_hooks); });
  forecast.steps = check.estimate;
  if (!check.unknown.empty()) forecast.unknown = fmt::format("{}{}", kUnknown, check.unknown);
  if (check.shortage == nullptr) return forecast;
  if (!check.estimate) forecast.unknown = "does not fit; `runner estimate` says what to change";
  // The plan may be for another machine. The table of graphs shows what does not fit on a TPU.
  if (!forecast.graphs) warnings.push_back("a run would not start here: " + message_of(check.shortage));
  return forecast;
}

struct PlanReport {
  std::vector<std::string> warnings;
  std::string text;  // or JSON document
};

PlanReport plan_of(const schema::ReadResult& read, const PlanOptions& options, report::Output& out) {
  const train::MakeHooks make_hooks = usable_hooks(read, lua::hooks_maker({}, printer(out)));
  const std::unique_ptr<train::Hooks> hooks = make_hooks(read.recipe);
  // Checks the limit before allocating memory per sample (data, order).
  const int64_t known = data::known_samples(read.recipe.data).value_or(0);
  if (known > 0 && options.batches) epochs_to_print(options, data::DataPlan(data::train_plan(read.recipe, known)));
  train::Session session(read.recipe, hooks.get());
  PlanReport plan;
  const report::PlanForecast forecast = forecast_of(session, hooks.get(), make_hooks, printer(out), plan.warnings);
  const int64_t epochs = options.batches ? epochs_to_print(options, session.plan) : 0;
  const std::vector<std::string> of_run = warnings_of(read, session, forecast.graphs);
  plan.warnings.insert(plan.warnings.begin(), of_run.begin(), of_run.end());
  if (!options.json) {
    plan.text = report::plan_text(session, forecast, out.data_width(), out.data_color());
    return plan;
  }
  const data::Dataset& train = session.data.train;
  data::Order order(train.size(), session.data_seed(), read.recipe.data.shuffle, train.shuffle_buffer());
  if (read.recipe.data.group_by_length) order.group_by([&](int64_t sample) { return train.length_of(sample); });
  const json::Object more{{"warnings", json::list_of(plan.warnings)}};
  const auto row_of = [&](int64_t sample) { return train.file_row(sample); };
  plan.text = report::plan_document(session, forecast,
                                    data::plan_json(session.plan, order, epochs, options.batches, row_of), more);
  return plan;
}

int plan(const PlanOptions& options, report::Output& out) {
  check_options(options);
  const schema::ReadResult read = read_recipe_file(options, out);
  const PlanReport plan = unrecorded([&] { return at_recipe_key(read, [&] { return plan_of(read, options, out); }); });
  for (const std::string& text : plan.warnings) out.colored_talk(report::warning_text(text, out.talk_color()));
  out.colored_data(plan.text);
  return 0;
}

}  // namespace

const Command kPlanCommand{
    .name = "plan",
    .group = Group::kRecipe,
    .summary = "show batches, steps, learning rate and memory before a run",
    .details = "--batches prints up to 100 million indices, including repeated samples.",
    .arguments = kPlanArguments,
    .examples =
        "runner plan recipes/digits.yaml\n"
        "runner plan recipes/digits.yaml --json --batches --epochs 2",
    .has_json = true,
    .action = action<plan>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
