#include "schema/recipe_warnings.h"

#include <gtest/gtest.h>

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

TEST(RecipeWarnings, WhatOneCycleReplaces) {
  const std::string cycle = "{type: one_cycle, max_lr: 0.1}";
  EXPECT_EQ(warnings("{type: sgd, lr: 0.2, momentum: 0.9}", cycle),
            (Texts{"r.yaml:5:28: optimizer.lr has no effect: scheduler.max_lr is the rate at the peak of one_cycle",
                   "r.yaml:5:43: optimizer.momentum has no effect: scheduler.cycle_momentum moves it"}));
  EXPECT_EQ(warnings("{type: adamw, betas: [0.8, 0.99]}", cycle),
            Texts{"r.yaml:5:33: optimizer.betas has no effect: scheduler.cycle_momentum moves the first of them"});
}

TEST(RecipeWarnings, NotWhatCountsOrIsTheDefault) {
  EXPECT_EQ(warnings("{type: sgd, lr: 0.001}", "{type: one_cycle, max_lr: 0.1}"), Texts{});
  EXPECT_EQ(warnings("{type: sgd, lr: 0.2, groups: [{params: [a], lr: 0.1}]}", "{type: one_cycle, max_lr: 0.1}"),
            Texts{});
  EXPECT_EQ(warnings("{type: adamw, betas: [0.8, 0.99]}", "{type: one_cycle, max_lr: 0.1, cycle_momentum: false}"),
            Texts{});
  EXPECT_EQ(warnings("{type: sgd, lr: 0.2, momentum: 0.9}", "{type: cosine}"), Texts{});
}

// Sections merge key by key, so the mode of a section below stays when the metric is replaced.
TEST(RecipeWarnings, AMetricWithAModeThatWasMeantForAnother) {
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
            Texts{"command line:1:33: checkpoint.keep_best.metric is eval/loss with mode max, from r.yaml:6:55; write "
                  "mode: min beside it if that is better"});
  EXPECT_EQ(with({"checkpoint={keep_best: {metric: eval/loss, mode: max}}"}), Texts{});
  EXPECT_EQ(with({"checkpoint={keep_best: {metric: eval/loss, mode: min}}"}), Texts{});
  EXPECT_EQ(with({"checkpoint.keep_best.metric=eval/top_2", "eval.metrics=[top_2]"}), Texts{});
  EXPECT_EQ(with({"train.early_stopping={metric: eval/accuracy}"}),
            Texts{"command line:1:31: train.early_stopping.metric is eval/accuracy with mode min, the default; write "
                  "mode: max beside it if that is better"});
  EXPECT_EQ(with({"train.early_stopping={metric: eval/loss}"}), Texts{});
}

}  // namespace
}  // namespace runner::schema
