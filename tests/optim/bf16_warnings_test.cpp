// Warnings about numbers of optimizers.
#include "runner/optim/bf16_warnings.h"

#include <gtest/gtest.h>

namespace runner::optim {
namespace {

using Texts = std::vector<std::string>;

Texts warnings_about(const std::string& optimizer) {
  return bf16_warnings(schema::read_recipe_text(R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: d.csv}, batch_size: 4}
train: {epochs: 3}
backend: tpu
mixed_precision: bf16
optimizer: )" + optimizer + "\n",
                                                "r.yaml"));
}

TEST(Bf16Warnings, AboutNumbersThatRoundToOne) {
  const auto never_decays = [](const std::string& where, const std::string& number, const std::string& what) {
    return "r.yaml:" + where + ": " + number + " rounds to 1 in the TPU's bf16, so " + what +
           " never decays; use at most 0.99609375, the largest bf16 number below 1";
  };
  EXPECT_EQ(warnings_about("{type: adam}"), Texts{never_decays("7:1: optimizer.betas", "0.999", "the second moment")});
  EXPECT_EQ(
      warnings_about("{type: adamw, lr: 0.001, betas: [0.9, 0.99], weight_decay: 0.01}"),
      Texts{"r.yaml:7:71: optimizer.weight_decay has no effect: 1 - lr * weight_decay is 0.99999, which rounds to 1 in "
            "the TPU's bf16"});
  EXPECT_EQ(warnings_about("{type: rmsprop, alpha: 0.999}"),
            Texts{never_decays("7:35: optimizer.alpha", "0.999", "the mean of squares")});
  EXPECT_EQ(warnings_about("{type: sgd, lr: 0.1, momentum: 0.9985}"),
            Texts{never_decays("7:43: optimizer.momentum", "0.9985", "the momentum buffer")});
}

TEST(Bf16Warnings, AboutAnEpsThatRoundsToZero) {
  for (const std::string type : {"adam", "rmsprop", "adagrad"})
    EXPECT_EQ(
        warnings_about("{type: " + type + ", eps: 1e-45" + (type == "adam" ? ", betas: [0.9, 0.99]}" : "}")),
        Texts{"r.yaml:7:" + std::to_string(26 + type.size()) +
              ": optimizer.eps: 1e-45 rounds to 0 in the TPU's bf16, so a gradient that was always 0 is divided by 0; "
              "use at least 1.1754944e-38, the smallest bf16 number above 0"});
  EXPECT_EQ(warnings_about("{type: adam, eps: 1.18e-38, betas: [0.9, 0.99]}"), Texts{});
}

TEST(Bf16Warnings, NoneForNumbersThatBf16Distinguishes) {
  EXPECT_EQ(warnings_about("{type: sgd, lr: 0.1, momentum: 0.998}"), Texts{});
  EXPECT_EQ(warnings_about("{type: adamw, lr: 0.1, betas: [0.9, 0.99], weight_decay: 0.1}"), Texts{});
}

// A group is named if its own numbers round; what it shares with the optimizer is reported once.
TEST(Bf16Warnings, AboutNumbersOfGroupsThatRound) {
  EXPECT_EQ(warnings_about("{type: adam, betas: [0.9, 0.99], groups: [{params: [bias], betas: [0.9, 0.999]}]}"),
            Texts{"r.yaml:7:78: optimizer.groups[0].betas: 0.999 rounds to 1 in the TPU's bf16, so the second moment "
                  "never decays; use at most 0.99609375, the largest bf16 number below 1"});
  EXPECT_EQ(warnings_about("{type: adam, groups: [{params: [bias], lr: 0.1}]}").size(), 1U);
}

}  // namespace
}  // namespace runner::optim
