// The built-in models have the same parameter names, shapes and order as in PyTorch.
#include "runner/model/models.h"

#include <map>

#include <gtest/gtest.h>

#include "runner/model/initial_weights.h"
#include "runner/model/model_def.h"
#include "schema/base/error.h"
#include "schema/recipe/causal_models.h"
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

ModelSpec transformer(schema::ModelType type, int64_t layers, int64_t heads, int64_t width) {
  ModelSpec spec = of_type(type);
  spec.layers = layers;
  spec.heads = heads;
  spec.width = width;
  return spec;
}

ModelSpec gpt(int64_t layers, int64_t heads, int64_t width) {
  ModelSpec spec = transformer(schema::ModelType::kGpt, layers, heads, width);
  spec.activation = schema::Activation::kGeluTanh;
  return spec;
}

ModelSpec encoder(schema::ModelHead head) {
  ModelSpec spec = transformer(schema::ModelType::kEncoder, 1, 2, 4);
  spec.head = head;
  return spec;
}

ModelSpec llama(int64_t layers, int64_t heads, int64_t width) {
  ModelSpec spec = transformer(schema::ModelType::kLlama, layers, heads, width);
  spec.tie_weights = false;
  return spec;
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

TEST(BuildModel, GptHasNamesOfNanoGpt) {
  ModelSpec spec = gpt(1, 2, 4);
  EXPECT_EQ(names_of(build_model(spec, labelled_tokens(6))),
            (Texts{"transformer.wte.weight (10, 4)", "transformer.wpe.weight (6, 4)", "transformer.h.0.ln_1.weight (4)",
                   "transformer.h.0.ln_1.bias (4)", "transformer.h.0.attn.c_attn.weight (12, 4)",
                   "transformer.h.0.attn.c_attn.bias (12)", "transformer.h.0.attn.c_proj.weight (4, 4)",
                   "transformer.h.0.attn.c_proj.bias (4)", "transformer.h.0.ln_2.weight (4)",
                   "transformer.h.0.ln_2.bias (4)", "transformer.h.0.mlp.c_fc.weight (16, 4)",
                   "transformer.h.0.mlp.c_fc.bias (16)", "transformer.h.0.mlp.c_proj.weight (4, 16)",
                   "transformer.h.0.mlp.c_proj.bias (4)", "transformer.ln_f.weight (4)", "transformer.ln_f.bias (4)"}));
  spec.bias = false;
  spec.tie_weights = false;
  spec.context = 9;
  spec.mlp_width = 7;
  EXPECT_EQ(
      names_of(build_model(spec, labelled_tokens(6))),
      (Texts{"transformer.wte.weight (10, 4)", "transformer.wpe.weight (9, 4)", "transformer.h.0.ln_1.weight (4)",
             "transformer.h.0.attn.c_attn.weight (12, 4)", "transformer.h.0.attn.c_proj.weight (4, 4)",
             "transformer.h.0.ln_2.weight (4)", "transformer.h.0.mlp.c_fc.weight (7, 4)",
             "transformer.h.0.mlp.c_proj.weight (4, 7)", "transformer.ln_f.weight (4)", "lm_head.weight (10, 4)"}));
}

// The embedding, which is the output layer too, counts once.
TEST(BuildModel, GptHasAsManyWeightsAsGpt2) {
  data::Encoding data = labelled_tokens(1024);
  data.vocabulary = data.outputs = 50257;
  EXPECT_EQ(build_model(gpt(12, 12, 768), data).parameters.elements(), 124'439'808);
}

TEST(BuildModel, GptHasInitialWeightsOfGpt2) {
  std::map<std::string, Initialiser> init;
  const Model model = build_model(gpt(2, 2, 4), labelled_tokens(6));
  for (const Parameter& p : model.parameters.parameters()) init[p.name] = p.init;
  const auto expect_deviation = [&](const std::string& name, double deviation) {
    EXPECT_EQ(init.at(name).kind, Initialiser::Kind::kNormal) << name;
    EXPECT_DOUBLE_EQ(init.at(name).scale, deviation) << name;
  };
  expect_deviation("transformer.wte.weight", 0.02);
  expect_deviation("transformer.wpe.weight", 0.02);
  expect_deviation("transformer.h.0.attn.c_attn.weight", 0.02);
  expect_deviation("transformer.h.0.mlp.c_fc.weight", 0.02);
  expect_deviation("transformer.h.1.attn.c_proj.weight", 0.01);  // 0.02 / √(2 · 2 layers)
  expect_deviation("transformer.h.1.mlp.c_proj.weight", 0.01);
  EXPECT_EQ(init.at("transformer.h.0.attn.c_attn.bias").kind, Initialiser::Kind::kZeros);
}

TEST(BuildModel, EncoderHasNamesOfTheHub) {
  const Texts bert{"bert.embeddings.word_embeddings.weight (10, 4)",
                   "bert.embeddings.position_embeddings.weight (6, 4)",
                   "bert.embeddings.token_type_embeddings.weight (2, 4)",
                   "bert.embeddings.LayerNorm.weight (4)",
                   "bert.embeddings.LayerNorm.bias (4)",
                   "bert.encoder.layer.0.attention.self.query.weight (4, 4)",
                   "bert.encoder.layer.0.attention.self.query.bias (4)",
                   "bert.encoder.layer.0.attention.self.key.weight (4, 4)",
                   "bert.encoder.layer.0.attention.self.key.bias (4)",
                   "bert.encoder.layer.0.attention.self.value.weight (4, 4)",
                   "bert.encoder.layer.0.attention.self.value.bias (4)",
                   "bert.encoder.layer.0.attention.output.dense.weight (4, 4)",
                   "bert.encoder.layer.0.attention.output.dense.bias (4)",
                   "bert.encoder.layer.0.attention.output.LayerNorm.weight (4)",
                   "bert.encoder.layer.0.attention.output.LayerNorm.bias (4)",
                   "bert.encoder.layer.0.intermediate.dense.weight (16, 4)",
                   "bert.encoder.layer.0.intermediate.dense.bias (16)",
                   "bert.encoder.layer.0.output.dense.weight (4, 16)",
                   "bert.encoder.layer.0.output.dense.bias (4)",
                   "bert.encoder.layer.0.output.LayerNorm.weight (4)",
                   "bert.encoder.layer.0.output.LayerNorm.bias (4)"};
  const Texts pooler{"bert.pooler.dense.weight (4, 4)", "bert.pooler.dense.bias (4)"};
  const Texts classifier{"classifier.weight (2, 4)", "classifier.bias (2)"};
  const auto expect = [&](schema::ModelHead head, const Texts& first, const Texts& second) {
    Texts all = bert;
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    EXPECT_EQ(names_of(build_model(encoder(head), tokens(6))), all);
  };
  expect(schema::ModelHead::kNone, {}, {});
  expect(schema::ModelHead::kClassification, pooler, classifier);
  expect(schema::ModelHead::kRegression, pooler, classifier);
  expect(schema::ModelHead::kTokenClassification, {}, classifier);
  expect(schema::ModelHead::kMaskedLm,
         {"cls.predictions.bias (10)", "cls.predictions.transform.dense.weight (4, 4)",
          "cls.predictions.transform.dense.bias (4)", "cls.predictions.transform.LayerNorm.weight (4)",
          "cls.predictions.transform.LayerNorm.bias (4)"},
         {});
}

TEST(BuildModel, EncoderHasInitialWeightsOfBert) {
  const Model model = build_model(encoder(schema::ModelHead::kClassification), tokens(6));
  using Kind = Initialiser::Kind;
  for (const Parameter& p : model.parameters.parameters()) {
    SCOPED_TRACE(p.name);
    const bool is_norm = p.name.ends_with("LayerNorm.weight");
    const Kind kind = is_norm ? Kind::kOnes : p.name.ends_with("bias") ? Kind::kZeros : Kind::kNormal;
    EXPECT_EQ(p.init.kind, kind);
    if (kind != Kind::kNormal) continue;
    EXPECT_DOUBLE_EQ(p.init.scale, 0.02);
    std::vector<float> values(static_cast<size_t>(p.elements())), part(3);
    initialise(p, 0, values);
    initialise(p, 0, part, 2);
    const size_t zeros = p.name == "bert.embeddings.word_embeddings.weight" ? 4 : 0;  // the row of the padding
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i] == 0, i < zeros) << i;
    EXPECT_EQ(part, std::vector<float>(values.begin() + 2, values.begin() + 5));
  }
}

void expect_refusal(const ModelSpec& spec, const data::Encoding& data, const std::string& text) {
  try {
    check_model(spec, data);
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_EQ(error.message(), text);
  }
}

TEST(CheckModel, EncoderNeedsFittingSizesAndInputs) {
  ModelSpec spec = encoder(schema::ModelHead::kClassification);
  data::Encoding data = tokens(6);
  data.label_kind = data::LabelKind::kClass;
  data.more_inputs = {{"attention_mask", backends::DType::kI64, {6}, 2},
                      {"token_type_ids", backends::DType::kI64, {6}, 2}};
  EXPECT_NO_THROW(check_model(spec, data));
  spec.vocabulary = 12;  // rows without a token
  EXPECT_NO_THROW(check_model(spec, data));
  spec.vocabulary = 9;
  expect_refusal(spec, data, "model.vocabulary is 9, but data.train has 10 tokens");
  spec.vocabulary = 10;
  spec.heads = 3;
  expect_refusal(spec, data, "model.width is 4, which 3 heads do not divide");
  spec.heads = 2;
  spec.segments = 1;
  expect_refusal(spec, data, "model.segments is 1, but data.train has token_type_ids up to 1");
  data.more_inputs[0].shape = {7};
  expect_refusal(spec, data,
                 "model.type encoder needs a value of attention_mask for each token, (6), but samples of data.train "
                 "have (7)");
}

TEST(CheckModel, EncoderNeedsLabelsOfItsHead) {
  using schema::ModelHead;
  data::Encoding classes = tokens(6), numbers = tokens(6), of_tokens = labelled_tokens(6), next = labelled_tokens(6);
  classes.label_kind = of_tokens.label_kind = next.label_kind = data::LabelKind::kClass;
  numbers.label_kind = data::LabelKind::kTarget;
  next.outputs = 10;
  next.token_labels = data::TokenLabels::kNext;
  data::Encoding words = of_tokens, vectors = numbers;
  words.outputs = 10;
  vectors.outputs = 4;
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kClassification), classes));
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kRegression), numbers));
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kTokenClassification), of_tokens));
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kMaskedLm), words));
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kNone), vectors));
  expect_refusal(encoder(ModelHead::kClassification), of_tokens,
                 "model.head classification needs a class per sample as label, but data.train has one of 2 "
                 "classes per token");
  expect_refusal(
      encoder(ModelHead::kClassification), numbers,
      "model.head classification needs a class per sample as label, but data.train has 2 numbers per sample");
  expect_refusal(encoder(ModelHead::kRegression), classes,
                 "model.head regression needs numbers per sample as label, but data.train has a class per sample");
  expect_refusal(encoder(ModelHead::kTokenClassification), classes,
                 "model.head token_classification needs a class per token as label, but data.train has a class per "
                 "sample");
  expect_refusal(encoder(ModelHead::kMaskedLm), of_tokens,
                 "model.head masked_lm needs one of 10 tokens per masked token as label, but data.train has one of 2 "
                 "classes per token");
  expect_refusal(encoder(ModelHead::kMaskedLm), next,
                 "model.head masked_lm needs one of 10 tokens per masked token as label, but data.train has the next "
                 "token as the label of each token; set train.objective: {type: masked_lm}");
  data::Encoding masked = next;
  masked.masking = data::Masking();
  masked.token_labels = data::TokenLabels::kOwn;
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kMaskedLm), masked));
  expect_refusal(
      encoder(ModelHead::kTokenClassification), masked,
      "model.head token_classification needs a class per token as label, but data.train has masked tokens as "
      "labels");
  expect_refusal(
      gpt(1, 2, 4), masked,
      "model.type gpt predicts the next token, but train.objective is masked_lm; use causal_lm, or model.type "
      "encoder with head masked_lm");
  expect_refusal(encoder(ModelHead::kNone), numbers,
                 "model.head none needs 4 numbers per sample as label, but data.train has 2 numbers per sample");
  EXPECT_NO_THROW(check_model(encoder(ModelHead::kMaskedLm), next, /*has_own_loss=*/true));
}

TEST(CheckModel, GptNeedsFittingSizes) {
  const auto expect_error = [](const ModelSpec& spec, const std::string& text) {
    expect_refusal(spec, labelled_tokens(6), text);
  };
  EXPECT_NO_THROW(check_model(gpt(1, 2, 4), labelled_tokens(6)));
  expect_error(gpt(1, 3, 4), "model.width is 4, which 3 heads do not divide");
  ModelSpec spec = gpt(1, 2, 4);
  spec.context = 5;
  expect_error(spec,
               "model.context is 5, but samples of data.train have 6 tokens; use data.train.sequence_length=5 or a "
               "larger context");
  spec.context = 6;
  spec.vocabulary = 9;
  expect_error(spec, "model.vocabulary is 9, but data.train has 10 tokens");
  spec.vocabulary = 11;  // more rows than tokens
  EXPECT_NO_THROW(check_model(spec, labelled_tokens(6)));
}

TEST(BuildModel, LlamaHasNamesOfTransformers) {
  ModelSpec spec = llama(1, 4, 8);
  EXPECT_EQ(names_of(build_model(spec, labelled_tokens(6))),
            (Texts{"model.embed_tokens.weight (10, 8)", "model.layers.0.self_attn.q_proj.weight (8, 8)",
                   "model.layers.0.self_attn.k_proj.weight (8, 8)", "model.layers.0.self_attn.v_proj.weight (8, 8)",
                   "model.layers.0.self_attn.o_proj.weight (8, 8)", "model.layers.0.mlp.gate_proj.weight (256, 8)",
                   "model.layers.0.mlp.up_proj.weight (256, 8)", "model.layers.0.mlp.down_proj.weight (8, 256)",
                   "model.layers.0.input_layernorm.weight (8)", "model.layers.0.post_attention_layernorm.weight (8)",
                   "model.norm.weight (8)", "lm_head.weight (10, 8)"}));
  spec.kv_heads = 2;
  spec.mlp_width = 7;
  spec.tie_weights = true;
  EXPECT_EQ(names_of(build_model(spec, labelled_tokens(6))),
            (Texts{"model.embed_tokens.weight (10, 8)", "model.layers.0.self_attn.q_proj.weight (8, 8)",
                   "model.layers.0.self_attn.k_proj.weight (4, 8)", "model.layers.0.self_attn.v_proj.weight (4, 8)",
                   "model.layers.0.self_attn.o_proj.weight (8, 8)", "model.layers.0.mlp.gate_proj.weight (7, 8)",
                   "model.layers.0.mlp.up_proj.weight (7, 8)", "model.layers.0.mlp.down_proj.weight (8, 7)",
                   "model.layers.0.input_layernorm.weight (8)", "model.layers.0.post_attention_layernorm.weight (8)",
                   "model.norm.weight (8)"}));
}

TEST(BuildModel, LlamaHasMlpWidthsOfTheHub) {
  const auto mlp_width = [](int64_t width) {
    const Model model = build_model(llama(1, 2, width), labelled_tokens(6));
    for (const Parameter& p : model.parameters.parameters())
      if (p.name == "model.layers.0.mlp.up_proj.weight") return p.shape[0];
    return int64_t{0};
  };
  EXPECT_EQ(mlp_width(4096), 11008);  // Llama 7B
  EXPECT_EQ(mlp_width(5120), 13824);  // Llama 13B
  EXPECT_EQ(mlp_width(96), 256);
  EXPECT_EQ(mlp_width(98), 512);
}

TEST(BuildModel, LlamaHasInitialWeightsOfTransformers) {
  const Model model = build_model(llama(2, 2, 4), labelled_tokens(6));
  for (const Parameter& p : model.parameters.parameters()) {
    const bool is_norm = p.name.find("norm") != std::string::npos;
    EXPECT_EQ(p.init.kind, is_norm ? Initialiser::Kind::kOnes : Initialiser::Kind::kNormal) << p.name;
    if (!is_norm) {
      EXPECT_DOUBLE_EQ(p.init.scale, 0.02) << p.name;
    }
    EXPECT_EQ(p.role == ParameterRole::kNormWeight, is_norm) << p.name;
  }
}

TEST(CheckModel, LlamaNeedsFittingSizes) {
  const auto expect_error = [](const ModelSpec& spec, const std::string& text) {
    expect_refusal(spec, labelled_tokens(6), text);
  };
  EXPECT_NO_THROW(check_model(llama(1, 2, 4), labelled_tokens(6)));
  expect_error(llama(1, 3, 8), "model.width is 8, which 3 heads do not divide");
  expect_error(
      llama(1, 4, 12),
      "rotary embeddings need heads of an even width, but model.width is 12, so each of 4 heads has 3 elements");
  ModelSpec spec = llama(1, 4, 8);
  for (const int64_t divisor : {1, 2, 4}) {
    spec.kv_heads = divisor;
    EXPECT_NO_THROW(check_model(spec, labelled_tokens(6))) << divisor;
  }
  spec.kv_heads = 3;
  expect_error(spec, "model.heads is 4, which 3 kv_heads do not divide");
  spec.kv_heads = 8;
  expect_error(spec, "model.heads is 4, which 8 kv_heads do not divide");
  spec = llama(1, 4, 8);
  spec.context = 5;
  expect_error(spec,
               "model.context is 5, but samples of data.train have 6 tokens; use data.train.sequence_length=5 or a "
               "larger context");
  spec.context = 6;
  spec.vocabulary = 9;
  expect_error(spec, "model.vocabulary is 9, but data.train has 10 tokens");
  spec = llama(1, 3, 8);  // heads that do not divide width have a width of their own
  spec.head_width = 4;
  EXPECT_NO_THROW(check_model(spec, labelled_tokens(6)));
  spec.head_width = 5;
  expect_error(spec, "rotary embeddings need heads of an even width, but model.head_width is 5");
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

// All choices of model.type have a definition, except that of a hook.
TEST(ModelDefs, EveryTypeHasOne) {
  const std::span<const schema::Choice> choices = schema::find_fields("model.type")[0].choices;
  for (size_t i = 0; i < choices.size(); ++i) {
    const bool is_hook = choices[i].name == "hook";
    EXPECT_EQ(find_model(static_cast<schema::ModelType>(i)) == nullptr, is_hook) << choices[i].name;
  }
}

// The types that fields.yaml lists for a key are those whose definition has what the key needs.
TEST(ModelDefs, KeysApplyToTheTypesThatHaveWhatTheyNeed) {
  const auto types_of = [](std::string_view key) {
    const schema::Condition& of_type = schema::find_fields(key)[0].when[0];
    EXPECT_EQ(of_type.path, "model.type") << key;
    return Texts(of_type.values.begin(), of_type.values.end());
  };
  Texts transformers, pretrained, replaceable;
  for (size_t i = 0; i < schema::kChoices<schema::ModelType>; ++i) {
    const auto type = static_cast<schema::ModelType>(i);
    const ModelDef* const def = find_model(type);
    const bool is_transformer = def != nullptr && def->transformer != nullptr;
    if (is_transformer) transformers.emplace_back(name_of(type));
    const bool has_outputs = def != nullptr && def->pretrained != nullptr && !def->pretrained().outputs.empty();
    if (has_outputs || (def != nullptr && !def->output_layer->empty())) replaceable.emplace_back(name_of(type));
    EXPECT_TRUE(is_transformer || !schema::predicts_next_token(type)) << name_of(type);
  }
  for (const schema::ModelType type : pretrained_types()) pretrained.emplace_back(name_of(type));
  EXPECT_EQ(types_of("model.layers"), transformers);
  EXPECT_EQ(types_of("model.pretrained"), pretrained);
  EXPECT_EQ(types_of("model.lora"), pretrained);
  EXPECT_EQ(types_of("model.new_head"), replaceable);
}

ModulePtr no_module(const ModelSpec&, const data::Encoding&) {
  return nullptr;
}

std::string refusal(const InputSpec& inputs, const data::Encoding& data) {
  try {
    check_inputs({.type = schema::ModelType::kCnn,
                  .inputs = inputs,
                  .check = kNoCheck,
                  .check_labels = kNoCheck,
                  .build = no_module,
                  .transformer = kNoTransformer,
                  .output_layer = kNoNewHead,
                  .pretrained = kNotPretrained},
                 data);
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

// The logits of PyTorch's model with the same weights.
TEST(LanguageModels, LogitsMatchPyTorch) {
  const std::string folder = support::source_path("tests/golden/language/");
  for (const testing::Golden& item : testing::Golden::load("language_models.json").cases()) {
    SCOPED_TRACE(item.name());
    const schema::Recipe recipe = schema::read_recipe(folder + item.name() + ".yaml").recipe;
    const std::vector<double> ids = item["ids"].numbers();
    data::Encoding data = labelled_tokens(std::ssize(ids));
    data.vocabulary = data.outputs = item["vocabulary"].integer();
    const Model model = build_model(recipe.model, data);
    Recording recording(*model.module, {}, recipe.model.lora);
    const InitialWeights weights({.path = folder + item.name() + ".safetensors"}, recording.parameters());
    for (const Parameter& parameter : recording.parameters().parameters()) {
      std::vector<float> values(static_cast<size_t>(parameter.elements()));
      weights.read(parameter, values);
      recording.set_parameter({values.begin(), values.end()});
    }
    const Value logits = recording.forward(recording.input({backends::DType::kI64, Shape{1, std::ssize(ids)}}, ids));
    const std::vector<double> got = recording.run({logits}).front();
    const std::vector<float> want = item["logits"].tensor().as<float>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  }
}

// By name, without the parameters of the head.
std::map<std::string, int64_t> distances(ModelSpec spec, const data::Encoding& data) {
  std::map<std::string, int64_t> all;
  const Model model = build_model(spec, data);
  for (const Parameter& parameter : model.parameters.parameters())
    if (const int64_t distance = distance_from_outputs(spec, parameter.name)) all[parameter.name] = distance;
  return all;
}

TEST(LayerDecay, DistanceCountsLayersFromTheLastToTheFirst) {
  const std::map<std::string, int64_t> of_gpt = distances(gpt(12, 2, 4), labelled_tokens(3));
  EXPECT_EQ(of_gpt.size(), 12U * 12 + 2);
  EXPECT_EQ(of_gpt.at("transformer.h.11.mlp.c_fc.bias"), 1);
  EXPECT_EQ(of_gpt.at("transformer.h.10.ln_1.weight"), 2);
  EXPECT_EQ(of_gpt.at("transformer.h.1.ln_1.weight"), 11);
  EXPECT_EQ(of_gpt.at("transformer.h.0.attn.c_attn.weight"), 12);
  EXPECT_EQ(of_gpt.at("transformer.wte.weight"), 13);
  EXPECT_EQ(of_gpt.at("transformer.wpe.weight"), 13);
}

TEST(LayerDecay, HeadsHaveDistance0) {
  const std::map<std::string, int64_t> of_encoder = distances(encoder(schema::ModelHead::kClassification), tokens(3));
  EXPECT_EQ(of_encoder.size(), 16U + 5) << "neither pooler nor classifier";
  EXPECT_EQ(of_encoder.at("bert.encoder.layer.0.attention.self.query.weight"), 1);
  EXPECT_EQ(of_encoder.at("bert.embeddings.LayerNorm.bias"), 2);
  const std::map<std::string, int64_t> of_llama = distances(llama(2, 2, 4), labelled_tokens(3));
  EXPECT_EQ(of_llama.size(), 2U * 9 + 1) << "neither model.norm nor lm_head";
  EXPECT_EQ(of_llama.at("model.layers.1.mlp.gate_proj.weight"), 1);
  EXPECT_EQ(of_llama.at("model.layers.0.mlp.gate_proj.weight"), 2);
  EXPECT_EQ(of_llama.at("model.embed_tokens.weight"), 3);
}

}  // namespace
}  // namespace runner::nn
