#include "schema/recipe/recipe_warnings.h"

#include <gtest/gtest.h>

#include "schema/recipe/recipe_identity.h"

namespace runner::schema {
namespace {

using Texts = std::vector<std::string>;

Texts warnings(const std::string& optimizer, const std::string& scheduler) {
  return recipe_warnings(read_recipe_text(R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 4}
train: {epochs: 3}
optimizer: )" + optimizer + "\nscheduler: " + scheduler +
                                              "\n",
                                          "r.yaml"));
}

TEST(RecipeWarnings, AboutValuesThatOneCycleReplaces) {
  const std::string cycle = "{type: one_cycle, max_lr: 0.1}";
  EXPECT_EQ(
      warnings("{type: sgd, lr: 0.2, momentum: 0.9}", cycle),
      (Texts{"r.yaml:5:28: optimizer.lr has no effect: with one_cycle, scheduler.max_lr is the peak learning rate",
             "r.yaml:5:43: optimizer.momentum has no effect: scheduler.cycle_momentum changes it during the run"}));
  EXPECT_EQ(
      warnings("{type: adamw, betas: [0.8, 0.99]}", cycle),
      Texts{
          "r.yaml:5:33: optimizer.betas has no effect: scheduler.cycle_momentum changes the first one during the run"});
}

TEST(RecipeWarnings, NoneForEffectiveOrDefaultValues) {
  EXPECT_EQ(warnings("{type: sgd, lr: 0.001}", "{type: one_cycle, max_lr: 0.1}"), Texts{});
  EXPECT_EQ(warnings("{type: sgd, lr: 0.2, groups: [{params: [a], lr: 0.1}]}", "{type: one_cycle, max_lr: 0.1}"),
            Texts{});
  EXPECT_EQ(warnings("{type: adamw, betas: [0.8, 0.99]}", "{type: one_cycle, max_lr: 0.1, cycle_momentum: false}"),
            Texts{});
  EXPECT_EQ(warnings("{type: sgd, lr: 0.2, momentum: 0.9}", "{type: cosine}"), Texts{});
}

// A TPU trains with all devices of a board unless the recipe says how many.
TEST(RecipeWarnings, AboutAGlobalBatchThatTheBackendMultiplies) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return recipe_warnings(read_recipe_text(R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 32}
train: {epochs: 3}
optimizer: {type: sgd}
)",
                                            "r.yaml", overrides));
  };
  EXPECT_EQ(with({"backend=tpu"}),
            Texts{"command line:1:9: backend: tpu trains with 8 processes, so the global batch is 256 samples instead "
                  "of 32; set split_batches: true to divide data.batch_size among them, or num_processes: 1"});
  EXPECT_EQ(with({"backend=tpu", "split_batches=true"}), Texts{});
  for (const char* processes : {"num_processes=1", "num_processes=4", "num_processes=8"})
    EXPECT_EQ(with({"backend=tpu", processes}), Texts{}) << processes;
  for (const char* backend : {"backend=cpu", "backend=gpu"}) EXPECT_EQ(with({backend}), Texts{}) << backend;
}

// Sections merge key by key, so the mode of an included section remains if the metric is replaced.
TEST(RecipeWarnings, AboutAModeInheritedFromAnotherMetric) {
  const std::string base = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, split: {eval: 0.1}, batch_size: 4}
train: {epochs: 3}
optimizer: {type: sgd}
checkpoint: {keep_best: {metric: eval/accuracy, mode: max}}
)";
  const auto with = [&](const std::vector<std::string>& overrides) {
    return recipe_warnings(read_recipe_text(base, "r.yaml", overrides));
  };
  EXPECT_EQ(with({}), Texts{});
  EXPECT_EQ(with({"checkpoint={keep_best: {metric: eval/loss}}"}),
            Texts{"command line:1:33: checkpoint.keep_best.metric is eval/loss with mode max, from r.yaml:6:55; add "
                  "mode: min to the same section if that is correct"});
  EXPECT_EQ(with({"checkpoint={keep_best: {metric: eval/loss, mode: max}}"}), Texts{});
  EXPECT_EQ(with({"checkpoint={keep_best: {metric: eval/loss, mode: min}}"}), Texts{});
  EXPECT_EQ(with({"checkpoint.keep_best.metric=eval/top_2", "eval.metrics=[top_2]"}), Texts{});
  EXPECT_EQ(with({"train.early_stopping={metric: eval/accuracy}"}), Texts{}) << "mode: auto";
  EXPECT_EQ(with({"train.early_stopping={metric: eval/loss}"}), Texts{});
}

TEST(RecipeWarnings, AboutAScaleOfZero) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return recipe_warnings(read_recipe_text(R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv, scale: 0}, batch_size: 32}
train: {epochs: 3}
optimizer: {type: sgd}
)",
                                            "r.yaml", overrides));
  };
  EXPECT_EQ(with({}), Texts{"r.yaml:3:49: data.train.scale is 0, so every feature is 0"});
  EXPECT_EQ(with({"data.train.scale=0.5"}), Texts{});
}

TEST(RecipeWarnings, AboutARateOf0) {
  const Texts zero{"r.yaml:5:28: the learning rate is 0 in all steps: no parameter changes; set optimizer.lr above 0"};
  EXPECT_EQ(warnings("{type: sgd, lr: 0}", "{type: cosine}"), zero);
  EXPECT_EQ(warnings("{type: sgd, lr: 0, groups: [{params: [0.*], momentum: 0.9}]}", "{type: cosine}"), zero);
  EXPECT_EQ(warnings("{type: sgd, lr: 0, groups: [{params: [0.*], lr: 0.1}]}", "{type: cosine}"), Texts{});
}

TEST(RecipeWarnings, AboutNoDecayWithoutDecay) {
  const std::string text = "{type: sgd, no_decay: bias_and_norm";
  EXPECT_EQ(warnings(text + "}", "{type: cosine}"),
            Texts{"r.yaml:5:34: optimizer.no_decay has no effect: optimizer.weight_decay is 0"});
  EXPECT_EQ(warnings(text + ", weight_decay: 0.1}", "{type: cosine}"), Texts{});
  EXPECT_EQ(warnings(text + ", groups: [{params: [0.*], weight_decay: 0.1}]}", "{type: cosine}"), Texts{});
}

TEST(RecipeWarnings, AboutRestartsOfOneProcess) {
  EXPECT_EQ(warnings("{type: sgd}", "{type: cosine}\nmax_restarts: 2"),
            Texts{"r.yaml:7:15: max_restarts has no effect: with one process, none is left to resume the run; set "
                  "num_processes above 1"});
  EXPECT_EQ(warnings("{type: sgd}", "{type: cosine}\nmax_restarts: 2\nnum_processes: 2"), Texts{});
}

TEST(RecipeWarnings, AboutFp16OnATpu) {
  EXPECT_EQ(warnings("{type: sgd, lr: 0.1}", "{type: cosine}\nbackend: tpu\nnum_processes: 1\nmixed_precision: fp16"),
            Texts{"r.yaml:9:18: mixed_precision: fp16 is not faster on a TPU, which multiplies in bf16, and overflows "
                  "above 65504; use bf16"});
}

// A recorded recipe has no file.
TEST(RecipeWarnings, OfARecordedRecipeNameTheKeyAlone) {
  const auto recorded = [](const std::string& keys, const std::vector<std::string>& overrides) {
    const std::string text =
        "schema_version: 1\nmodel: {type: linear}\ndata: {train: {format: csv, path: d.csv}, "
        "batch_size: 4, split: {eval: 0.1}}\ntrain: {epochs: 3}\n";
    return recipe_warnings(read_resolved(resolved_json(read_recipe_text(text + keys, "r.yaml")), overrides));
  };
  EXPECT_EQ(recorded("optimizer: {type: sgd, momentum: 0.9}\nscheduler: {type: one_cycle, max_lr: 0.1}\n", {}),
            Texts{"optimizer.momentum has no effect: scheduler.cycle_momentum changes it during the run"});
  EXPECT_EQ(
      recorded("optimizer: {type: sgd}\ncheckpoint: {keep_best: {metric: eval/accuracy, mode: max}}\n",
               {"checkpoint.keep_best.metric=eval/loss"}),
      Texts{"command line:1:29: checkpoint.keep_best.metric is eval/loss with mode max, from the recorded recipe; "
            "add mode: min to the same section if that is correct"});
}

}  // namespace
}  // namespace runner::schema
