// LoRA: which layers get adapters, their names and shapes, and the merged weight.
#include "runner/model/lora.h"

#include <gtest/gtest.h>

#include "runner/model/models.h"
#include "schema/base/error.h"
#include "tests/support/thrown_text.h"

namespace runner::nn {
namespace {

using Texts = std::vector<std::string>;

schema::ModelSpec spec_of(schema::ModelType type, Texts targets, Texts saved = {}) {
  schema::ModelSpec spec;
  spec.type = type;
  spec.layers = 2;
  spec.heads = 2;
  spec.width = 4;
  spec.tie_weights = false;
  spec.lora = {.rank = 3, .alpha = 6, .targets = std::move(targets), .dropout = 0, .modules_to_save = std::move(saved)};
  return spec;
}

Model model_of(const schema::ModelSpec& spec) {
  data::Encoding data;
  data.feature_shape = {5};
  data.vocabulary = 10;
  data.outputs = 3;
  return build_model(spec, data);
}

Texts trained(const schema::ModelSpec& spec) {
  Model model = model_of(spec);
  model.parameters.lay_out({}, {});
  Texts names;
  for (const Parameter& parameter : model.parameters.parameters())
    if (parameter.trainable) names.push_back(parameter.name + " " + parameter.shape.to_string());
  return names;
}

TEST(Lora, AdaptersHaveTheNamesAndShapesOfPeft) {
  EXPECT_EQ(
      trained(spec_of(schema::ModelType::kGpt, {"c_attn"})),
      (Texts{"transformer.h.0.attn.c_attn.lora_A.weight (3, 4)", "transformer.h.0.attn.c_attn.lora_B.weight (12, 3)",
             "transformer.h.1.attn.c_attn.lora_A.weight (3, 4)", "transformer.h.1.attn.c_attn.lora_B.weight (12, 3)"}));
  EXPECT_EQ(trained(spec_of(schema::ModelType::kLlama, {"model.layers.1.*.?_proj", "lm_head"})),
            (Texts{"model.layers.1.self_attn.q_proj.lora_A.weight (3, 4)",
                   "model.layers.1.self_attn.q_proj.lora_B.weight (4, 3)",
                   "model.layers.1.self_attn.k_proj.lora_A.weight (3, 4)",
                   "model.layers.1.self_attn.k_proj.lora_B.weight (4, 3)",
                   "model.layers.1.self_attn.v_proj.lora_A.weight (3, 4)",
                   "model.layers.1.self_attn.v_proj.lora_B.weight (4, 3)",
                   "model.layers.1.self_attn.o_proj.lora_A.weight (3, 4)",
                   "model.layers.1.self_attn.o_proj.lora_B.weight (4, 3)", "lm_head.lora_A.weight (3, 4)",
                   "lm_head.lora_B.weight (10, 3)"}));
}

TEST(Lora, ModulesToSaveAreTrainedInFullAndHaveNoAdapter) {
  const schema::ModelSpec spec = spec_of(schema::ModelType::kEncoder, {"*.0.attention.self.query", "dense"},
                                         {"classifier", "pooler", "encoder.layer.1"});
  EXPECT_EQ(trained(spec).size(), 2U * 4 + 16 + 4);  // query and three dense layers; layer 1; pooler and classifier
  const Texts names = trained(spec);
  EXPECT_EQ(std::ranges::count(names, "bert.pooler.dense.weight (4, 4)"), 1);
  EXPECT_EQ(std::ranges::count(names, "bert.encoder.layer.0.output.dense.lora_A.weight (3, 16)"), 1);
}

TEST(Lora, PatternsThatSelectNothingAreErrors) {
  constexpr const char* kRest =
      "; expected the name of a parameter without .weight or .bias, or the end of such a name; `runner parameters "
      "RECIPE` lists the names if you remove model.lora";
  for (const auto& [targets, saved, expected] : std::vector<std::tuple<Texts, Texts, std::string>>{
           {{"query", "quary"}, {}, "model.lora.targets: 'quary' is no linear layer of the model"},
           {{"word_embeddings"}, {}, "model.lora.targets: 'word_embeddings' is no linear layer of the model"},
           {{"uery"}, {}, "model.lora.targets: 'uery' is no linear layer of the model"},
           {{"query"}, {"score"}, "model.lora.modules_to_save: 'score' is no module of the model"},
           {{"classifier"},
            {"classifier"},
            "model.lora.targets: 'classifier' is no linear layer outside modules_to_save"}})
    EXPECT_EQ(support::thrown_text(
                  [&, &of = targets, &full = saved] { model_of(spec_of(schema::ModelType::kEncoder, of, full)); },
                  ErrorKind::kRecipe),
              expected + kRest);
}

TEST(Lora, MergedWeightIsWPlusScaledBA) {
  std::vector<float> weight{1, 2, 3, 4, 5, 6};   // (2, 3)
  const std::vector<float> a{1, 0, 2, 0, 1, 1};  // (2, 3)
  const std::vector<float> b{1, 2, 3, 4};        // (2, 2)
  merge_adapter(weight, a, b, 0.5, 2);
  EXPECT_EQ(weight, (std::vector<float>{1.5F, 3, 5, 5.5F, 7, 11}));
}

}  // namespace
}  // namespace runner::nn
