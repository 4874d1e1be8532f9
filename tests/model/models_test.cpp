// The built-in models have the same parameter names, shapes and order as in PyTorch.
#include "runner/model/models.h"

#include <map>

#include <gtest/gtest.h>

#include "runner/model/model_def.h"
#include "schema/base/error.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/golden/golden.h"
#include "tests/model/recording.h"
#include "tests/support/paths.h"

namespace runner::nn {
namespace {

using backends::Shape;
using schema::ModelSpec;
using Texts = std::vector<std::string>;

ModelSpec mlp(std::vector<int64_t> hidden, double dropout = 0, bool layer_norm = false) {
  ModelSpec spec;
  spec.type = schema::ModelType::kMlp;
  spec.hidden = std::move(hidden);
  spec.dropout = dropout;
  spec.layer_norm = layer_norm;
  return spec;
}

ModelSpec of_type(schema::ModelType type) {
  ModelSpec spec;
  spec.type = type;
  return spec;
}

// Data with numbers of this shape and so many outputs.
data::Encoding features(const Shape& shape, int64_t outputs) {
  data::Encoding data;
  data.feature_shape = shape;
  data.outputs = outputs;
  return data;
}

// Token ids with one label per sample.
data::Encoding tokens(int64_t length) {
  data::Encoding data = features({length}, 2);
  data.vocabulary = 10;
  return data;
}

// Token ids with a label each.
data::Encoding labelled_tokens(int64_t length) {
  data::Encoding data = tokens(length);
  data.sequence = length;
  return data;
}

Texts names_of(const Model& model) {
  Texts names;
  for (const Parameter& p : model.parameters.parameters()) names.push_back(p.name + " " + p.shape.to_string());
  return names;
}

TEST(BuildModel, MlpHasNamesOfSequential) {
  EXPECT_EQ(
      names_of(build_model(mlp({16, 8}), features({4}, 3))),
      (Texts{"0.weight (16, 4)", "0.bias (16)", "2.weight (8, 16)", "2.bias (8)", "4.weight (3, 8)", "4.bias (3)"}));
  EXPECT_EQ(names_of(build_model(mlp({}), features({4}, 3))), (Texts{"0.weight (3, 4)", "0.bias (3)"}));
  ModelSpec without_bias = mlp({16});
  without_bias.bias = false;
  EXPECT_EQ(names_of(build_model(without_bias, features({4}, 3))), (Texts{"0.weight (16, 4)", "2.weight (3, 16)"}));
}

TEST(BuildModel, LayerNormAndDropoutAreNumberedMembers) {
  EXPECT_EQ(
      names_of(build_model(mlp({16}, 0, true), features({4}, 3))),
      (Texts{"0.weight (16, 4)", "0.bias (16)", "1.weight (16)", "1.bias (16)", "3.weight (3, 16)", "3.bias (3)"}));
  EXPECT_EQ(names_of(build_model(mlp({16}, 0.5), features({4}, 3))),
            (Texts{"0.weight (16, 4)", "0.bias (16)", "3.weight (3, 16)", "3.bias (3)"}));
  EXPECT_EQ(names_of(build_model(mlp({16, 8}, 0.5, true), features({4}, 3))),
            (Texts{"0.weight (16, 4)", "0.bias (16)", "1.weight (16)", "1.bias (16)", "4.weight (8, 16)", "4.bias (8)",
                   "5.weight (8)", "5.bias (8)", "8.weight (3, 8)", "8.bias (3)"}));
}

TEST(BuildModel, FlattenAddsNoNameLevel) {
  EXPECT_EQ(names_of(build_model(of_type(schema::ModelType::kLinear), features({28, 28}, 10))),
            (Texts{"0.weight (10, 784)", "0.bias (10)"}));
}

// Compares with the state dicts of models trained by PyTorch for the recipes in the same folder.
TEST(BuildModel, MatchesParametersOfPyTorch) {
  const testing::Golden file = testing::Golden::load("training.json");
  for (const testing::Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    const std::string folder = support::source_path("tests/golden/training/");
    const schema::Recipe recipe = schema::read_recipe(folder + item.name() + ".yaml").recipe;
    const std::string data = item["recipe"]["data"]["train"]["path"].text();
    const testing::Golden arrays = file["data"][data.substr(0, data.find('.'))];
    const testing::GoldenTensor labels = arrays["labels"].tensor();
    const int64_t outputs = !labels.integers.empty() ? 3 : labels.shape.rank() == 1 ? 1 : labels.shape[1];
    const Model model = build_model(recipe.model, features({arrays["features"].tensor().shape[1]}, outputs));
    std::map<std::string, Shape> ours, torchs;
    for (const Parameter& p : model.parameters.parameters()) ours[p.name] = p.shape;
    for (const std::string& name : item["initial"].keys()) torchs[name] = item["initial"][name].tensor().shape;
    EXPECT_EQ(ours, torchs);
  }
}

TEST(BuildModel, MlpForwardFlattensSamples) {
  const Model model = build_model(mlp({2}), features({2, 2}, 1));
  Recording recording(*model.module);
  recording.set_parameter({1, 0, -1, 2, 0, 1, 1, -3});  // (2, 4)
  recording.set_parameter({0.5, -1});
  recording.set_parameter({2, -1});  // (1, 2)
  recording.set_parameter({10});
  const Value x = recording.input({backends::DType::kF32, Shape{2, 2, 2}}, {1, 2, 3, 4, 0, 1, 2, 0});
  const auto y = recording.run({recording.forward(x)});
  // Hidden units: (1 − 3 + 8 + 0.5, 2 + 3 − 12 − 1) = (6.5, −8) and (−2 + 0.5, 1 + 2 − 1) = (−1.5, 2).
  EXPECT_EQ(y[0], (std::vector<double>{10 + 2 * 6.5, 10 - 2}));
}

// Choices of model.type that work have a definition, except that of a hook.
TEST(ModelDefs, EveryTypeThatWorksHasOne) {
  const std::span<const schema::Choice> choices = schema::find_fields("model.type")[0].choices;
  for (size_t i = 0; i < choices.size(); ++i) {
    const bool needed = choices[i].works && choices[i].name != "hook";
    EXPECT_EQ(find_model(static_cast<schema::ModelType>(i)) != nullptr, needed) << choices[i].name;
  }
}

ModulePtr no_module(const ModelSpec&, const data::Encoding&) {
  return nullptr;
}

std::string refusal(const InputSpec& inputs, const data::Encoding& data) {
  try {
    check_inputs({.type = schema::ModelType::kCnn, .inputs = inputs, .check = kNoCheck, .build = no_module}, data);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    return error.message();
  }
  return "";
}

TEST(CheckInputs, RefusesDataThatTheModelDoesNotAccept) {
  const InputSpec images{.kind = ModelInputKind::kNumbers,
                         .least_axes = 2,
                         .most_axes = 3,
                         .others = kNoOthers,
                         .outputs = OutputsPer::kSample};
  EXPECT_EQ(refusal(images, features({28, 28}, 10)), "");
  EXPECT_EQ(refusal(images, features({3, 28, 28}, 10)), "");
  EXPECT_EQ(refusal(images, features({784}, 10)),
            "model.type cnn needs samples with 2 to 3 axes, but those of data.train have shape (784)");
  EXPECT_EQ(refusal(images, tokens(4)),
            "the recipe's models take numbers, but samples of data.train are tokens of text; add a function model with "
            "nn.Embedding to the hook");

  constexpr std::string_view kMask[] = {"attention_mask"};
  InputSpec sequences{.kind = ModelInputKind::kTokens,
                      .least_axes = 1,
                      .most_axes = 1,
                      .others = kNoOthers,
                      .outputs = OutputsPer::kToken};
  EXPECT_EQ(refusal(sequences, labelled_tokens(4)), "");
  EXPECT_EQ(refusal(sequences, features({4}, 3)),
            "model.type cnn needs tokens, but data.train has numbers; use data.train.format: text");
  EXPECT_EQ(refusal(sequences, tokens(4)),
            "model.type cnn needs one label per token, but data.train has one per sample");
  sequences.outputs = OutputsPer::kSample;
  EXPECT_EQ(refusal(sequences, tokens(4)), "");
  EXPECT_EQ(refusal(sequences, labelled_tokens(4)),
            "model.type cnn needs one label per sample, but data.train has one per token");
  sequences.others = std::span(kMask);
  EXPECT_EQ(refusal(sequences, tokens(4)),
            "model.type cnn needs an input attention_mask, which data.train does not have");
}

}  // namespace
}  // namespace runner::nn
