#include <algorithm>

#include "runner/cli/commands/commands.h"
#include "runner/data/order.h"
#include "runner/lua/hook_file.h"
#include "runner/report/error_text.h"
#include "runner/report/plot.h"
#include "runner/report/session_text.h"
#include "runner/train/loop/session.h"
#include "schema/recipe_warnings.h"

namespace runner::cli {

namespace {

constexpr int64_t kMostIndices = 100'000'000;  // about a gigabyte of text

void check_options(const Options& options) {
  RUN_CHECK(!options.batches || options.json, ErrorKind::kUsage, "--batches is for --json; add it, or leave it out");
  RUN_CHECK(options.epochs == Options::kNotGiven || options.batches, ErrorKind::kUsage,
            "--epochs is for --batches; add it, or set train.epochs=N");
  RUN_CHECK(options.epochs != 0, ErrorKind::kUsage, "--epochs is 0: at least 1");
}

int64_t epochs_to_print(const Options& options, const data::DataPlan& plan) {
  const int64_t epochs = options.epochs == Options::kNotGiven ? 1 : options.epochs;
  const int64_t indices = std::max<int64_t>(1, plan.samples_per_epoch() + plan.repeats_per_epoch());
  const int64_t most = kMostIndices / indices;
  RUN_CHECK(most > 0, ErrorKind::kUsage,
            "--batches: an epoch has {} indices, and at most {} can be printed; leave it out, or take fewer samples",
            indices, kMostIndices);
  RUN_CHECK(epochs <= most, ErrorKind::kUsage, "--epochs is {}: at most {} of {} indices each can be printed", epochs,
            most, indices);
  return epochs;
}

// What `runner exec` would warn of before its first step.
std::vector<std::string> warnings_of(const schema::ReadResult& recipe, const train::Session& session) {
  std::vector<std::string> warnings = schema::recipe_warnings(recipe);
  for (const auto& more : {session.data.warnings, session.plan_warnings()}) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  return warnings;
}

}  // namespace

int plan(const Options& options, report::Output& out) {
  check_options(options);
  const schema::ReadResult read = schema::read_recipe(options.recipe, options.overrides);
  const std::unique_ptr<train::Hooks> hooks = lua::load_hooks(read.recipe);
  // Before what takes memory by the sample: data in parts, an order.
  const int64_t known = data::known_samples(read.recipe.data).value_or(0);
  if (known > 0 && options.batches) epochs_to_print(options, data::DataPlan(data::train_plan(read.recipe, known)));
  const train::Session session(read.recipe, hooks.get());
  const int64_t epochs = options.batches ? epochs_to_print(options, session.plan) : 0;
  const std::vector<std::string> warnings = warnings_of(read, session);
  for (const std::string& text : warnings) out.talk(report::warning_text(text, out.talk_color()));
  if (!options.json) {
    out.data(report::session_text(session, report::plot_width(out.data_width()), out.data_color()));
    return 0;
  }
  const data::Dataset& train = session.data.train;
  data::Order order(train.size(), session.data_seed(), read.recipe.data.shuffle, train.shuffle_buffer());
  out.data(report::session_document(session, data::plan_json(session.plan, order, epochs, options.batches), warnings));
  return 0;
}

}  // namespace runner::cli
