// Keys for fine-tuning: weight decay and learning rates by kind and depth of parameters.

#include <fmt/format.h>

#include "tests/support/thrown_text.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr const char* kGpt = R"(schema_version: 1
name: small
model: {type: gpt, layers: 2, heads: 2, width: 8}
data:
  train: {format: text, path: text.txt, sequence_length: 8}
  batch_size: 4
optimizer: {type: adamw, lr: 0.01, weight_decay: 0.5}
train: {steps: 4}
)";

class FineTuning : public RunFixture {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 30; ++i) text += fmt::format("{} and {} make {}. ", i, 2 * i, 3 * i);
    write("text.txt", text);
  }

  // The weights after training with these keys.
  std::map<std::string, std::vector<std::byte>> weights(const std::vector<std::string>& overrides) {
    EXPECT_EQ(train(kGpt, {.overrides = overrides}).error, std::nullopt);
    std::map<std::string, std::vector<std::byte>> sections = last_state();
    std::erase_if(sections, [](const auto& section) { return !section.first.starts_with("model/"); });
    return sections;
  }
};

TEST_F(FineTuning, NoDecayIsThatOfGroupsOfNormsAndBiases) {
  const auto decayed = weights({}), without = weights({"optimizer.no_decay=bias_and_norm"});
  EXPECT_EQ(without, weights({"optimizer.groups=[{params: [norms, biases], weight_decay: 0}]"}));
  for (const auto& [name, bytes] : decayed) EXPECT_NE(without.at(name), bytes) << name;  // each reads all others
}

TEST_F(FineTuning, NoDecayHoldsInEveryGroup) {
  EXPECT_EQ(weights({"optimizer.no_decay=bias_and_norm", "optimizer.groups=[{params: ['*.h.0.*'], lr: 0.002}]"}),
            weights({"optimizer.groups=[{params: ['*.h.0.*.bias', '*.h.0.ln_?.*'], lr: 0.002, weight_decay: 0},"
                     "{params: ['*.h.0.*'], lr: 0.002}, {params: [norms, biases], weight_decay: 0}]"}));
}

TEST_F(FineTuning, LayerDecayIsThatOfAGroupPerLayer) {
  const std::vector<std::string> groups{
      "optimizer.groups=[{params: ['*.h.1.*'], lr: 0.005}, {params: ['*.h.0.*'], lr: 0.0025},"
      "{params: ['*.w?e.*'], lr: 0.00125}]"};
  const std::string schedule = "scheduler={type: linear, warmup: 2 steps}";
  EXPECT_EQ(weights({"optimizer.layer_decay=0.5"}), weights(groups));
  EXPECT_EQ(weights({"optimizer.layer_decay=0.5", schedule}), weights({groups[0], schedule}));
  EXPECT_EQ(weights({"optimizer.layer_decay=1"}), weights({}));
}

TEST_F(FineTuning, LayerDecayMultipliesTheRateOfAGroup) {
  EXPECT_EQ(weights({"optimizer.layer_decay=0.5", "optimizer.no_decay=bias_and_norm",
                     "optimizer.groups=[{params: ['*.attn.*.weight'], lr: 0.04}]"}),
            weights({"optimizer.groups=["
                     "{params: ['*.h.1.attn.*.weight'], lr: 0.02}, {params: ['*.h.0.attn.*.weight'], lr: 0.01},"
                     "{params: ['*.h.1.ln*', '*.h.1.*.bias'], lr: 0.005, weight_decay: 0},"
                     "{params: ['*.h.1.*'], lr: 0.005}, "
                     "{params: ['*.h.0.ln*', '*.h.0.*.bias'], lr: 0.0025, weight_decay: 0},"
                     "{params: ['*.h.0.*'], lr: 0.0025}, {params: ['*.w?e.*'], lr: 0.00125},"
                     "{params: [norms], weight_decay: 0}]"}));
}

TEST_F(FineTuning, AGroupWithoutDecayingParametersCannotHaveItsOwnDecay) {
  EXPECT_EQ(support::thrown_text([&] {
              train(kGpt,
                    {.overrides = {"optimizer.no_decay=bias_and_norm",
                                   "optimizer.groups=[{params: ['*.h.0.*']}, {params: [biases], weight_decay: 1}]"}});
            }),
            "optimizer.groups[1].weight_decay has no effect: the group has only biases and norms, which "
            "optimizer.no_decay keeps from decay; remove one of the two");
}

}  // namespace
}  // namespace runner::train
