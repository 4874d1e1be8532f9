// Keys for fine-tuning: weight decay and learning rates by kind and depth of parameters, LoRA, recomputed blocks.

#include <cmath>

#include <fmt/format.h>

#include "runner/formats/safetensors.h"
#include "runner/train/run/exported_adapter.h"
#include "schema/base/file.h"
#include "schema/recipe/recipe_reader.h"
#include "store/state_store.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/bytes.h"
#include "tests/support/paths.h"
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

using Weights = std::map<std::string, std::vector<std::byte>>;  // by section of a state

class FineTuning : public RunFixture {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 30; ++i) text += fmt::format("{} and {} make {}. ", i, 2 * i, 3 * i);
    write("text.txt", text);
  }

  // Texts of the data of kEncoder.
  void write_table() const {
    std::string table = "a\tb\ty\n";
    for (int i = 0; i < 20; ++i) table += fmt::format("{}\t{} {}\t{}\n", i, 10 + i, i * i, i % 3);
    write("table.tsv", table);
  }

  // Of the newest run.
  store::LoadedState newest_state() const {
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    return store::load_state(store, store::list_states(store, store::find_run(store, "@last").id, true).at(0).id);
  }

  void write_tensors(const std::string& file, const std::vector<StoredParameter>& parameters) const {
    std::vector<formats::NamedTensor> tensors;
    for (const StoredParameter& parameter : parameters)
      tensors.push_back({parameter.name, backends::DType::kF32, parameter.shape, parameter.values});
    formats::write_safetensors(path(file).string(), std::move(tensors));
  }

  // The weights after training.
  Weights weights_of(const std::string& recipe, const Options& options) {
    EXPECT_EQ(train(recipe, options).error, std::nullopt);
    Weights sections = last_state(options.store);
    std::erase_if(sections, [](const auto& section) { return !section.first.starts_with("model/"); });
    return sections;
  }
  Weights weights(const std::vector<std::string>& overrides) { return weights_of(kGpt, {.overrides = overrides}); }
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

constexpr const char* kEncoder = R"(schema_version: 1
name: small
model: {type: encoder, layers: 2, heads: 2, width: 8}
data:
  train: {format: tsv, path: table.tsv, text: [a, b], label: y}
  tokens: {tokenizer: characters, max_length: 24}
  batch_size: 4
optimizer: {type: adamw, lr: 0.01}
train: {steps: 4, clip_grad_norm: 1}
)";

// ---- LoRA ----------------------------------------------------------------------------------------------------------

class LoraTraining : public FineTuning {
 protected:
  static std::string recipe() {
    const std::string folder = support::source_path("tests/golden/language/");
    return fmt::format(R"(schema_version: 1
name: lora
model:
  {{type: gpt, layers: 2, heads: 4, width: 16, init_from: {0}gpt_tanh.safetensors, lora: {{rank: 2, alpha: 3}}}}
data:
  train: {{format: text, path: {0}proverbs.txt, sequence_length: 12}}
  batch_size: 4
optimizer: {{type: adamw, lr: 0.02, weight_decay: 0.1}}
train: {{steps: 6}}
log: {{every: 1 step}}
)",
                       folder);
  }
  Weights weights(const std::vector<std::string>& overrides) { return weights_of(recipe(), {.overrides = overrides}); }
};

bool is_adapter(const std::string& name) {
  return name.find(".attn.c_attn.lora_") != std::string::npos;
}

TEST_F(LoraTraining, BeginsWithTheLossOfTheBase) {
  weights({});
  const double first = points("train/loss").front().second;
  weights({"model.lora=null"});
  EXPECT_EQ(first, points("train/loss").front().second);
}

TEST_F(LoraTraining, OtherWeightsKeepTheirBits) {
  const Weights untrained = weights({"optimizer.lr=0"});
  const Weights trained = weights({"model.lora.dropout=0.1", "train.ema={decay: 0.9}"});
  size_t adapters = 0;
  for (const auto& [name, bytes] : trained) {
    EXPECT_EQ(bytes == untrained.at(name), !is_adapter(name)) << name;
    adapters += is_adapter(name);
  }
  EXPECT_EQ(adapters, 4U);
}

TEST_F(LoraTraining, ModulesToSaveAreTrained) {
  const Weights trained = weights({"model.lora.modules_to_save=ln_f"}), untrained = weights({"optimizer.lr=0"});
  for (const auto& [name, bytes] : trained)
    EXPECT_EQ(bytes == untrained.at(name), !is_adapter(name) && name.find("ln_f") == std::string::npos) << name;
}

TEST_F(LoraTraining, ResumesExactly) {
  const std::vector<std::string> keys{"model.lora.dropout=0.2", "model.lora.modules_to_save=[ln_f]"};
  train(recipe(), {.store = "whole.db", .overrides = keys});
  const RunResult part = train(recipe(), {.store = "part.db", .overrides = keys, .stop_after = 3});
  train(recipe(), {.store = "part.db", .resume = part.run, .overrides = keys});
  const auto whole = last_state("whole.db"), resumed = last_state("part.db");
  for (const auto& [name, bytes] : whole) EXPECT_TRUE(name == "run" || resumed.at(name) == bytes) << name;
}

void on_ranks(int size, const std::function<void(backends::ProcessGroup& ranks)>& body) {
  backends::testing::on_threads(size, [&](backends::SharedMemoryGroup& ranks) { body(ranks); });
}

TEST_F(LoraTraining, TwoRanksTrainTheSameAdapters) {
  const Weights one = weights({}), two = weights_of(recipe(), {.overrides = {"num_processes=2", "split_batches=true"},
                                                               .transport = on_ranks});
  for (const auto& [name, bytes] : one) {
    const std::vector<float> a = support::numbers_of<float>(bytes), b = support::numbers_of<float>(two.at(name));
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5) << name << ' ' << i;
  }
}

TEST_F(LoraTraining, MergedWeightsComputeTheSame) {
  weights({"model.lora.modules_to_save=ln_f", "optimizer.lr=0.1"});
  const store::LoadedState state = newest_state();
  const MergedParameters merged(parameters_of(state, false), {.rank = 2, .alpha = 3});
  write_tensors("whole.safetensors", parameters_of(state, false));
  write_tensors("merged.safetensors", merged.parameters());
  const auto first_loss = [&](const std::string& file, const std::string& key) {
    weights({"optimizer.lr=0", "train.steps=1", key, "model.init_from=" + path(file).string()});
    return points("train/loss").front().second;
  };
  const double expected = first_loss("whole.safetensors", "model.lora.rank=2");
  EXPECT_NEAR(first_loss("merged.safetensors", "model.lora=null"), expected, 1e-6);
  EXPECT_GT(std::fabs(first_loss("whole.safetensors", "model.lora.alpha=2") - expected), 1e-4) << "adapters are read";
}

// PEFT selects each layer whose path ends with a target, so `c_attn` alone would select both layers.
TEST_F(LoraTraining, AdapterOfSomeLayersNamesTheirPaths) {
  const std::string targets = "model.lora.targets=['*.0.attn.c_attn']";
  const Weights trained = weights({targets});
  EXPECT_EQ(std::ranges::count_if(trained, [](const auto& section) { return is_adapter(section.first); }), 2);
  const store::LoadedState state = newest_state();
  const schema::Recipe recipe = schema::read_recipe(path("recipe.yaml").string(), std::span(&targets, 1)).recipe;
  export_adapter({.state = state, .recipe = &recipe}, path("adapter").string());
  const support::Json config = support::Json::parse(*read_file(path("adapter/adapter_config.json").string()));
  EXPECT_EQ(config["target_modules"], support::Json::parse(R"(["transformer.h.0.attn.c_attn"])"));
  EXPECT_EQ(config["task_type"].text(), "CAUSAL_LM");
}

TEST_F(LoraTraining, AdapterHasTheTensorsAndSettingsOfPeft) {
  const testing::Golden item = testing::Golden::load("encoders.json").find("lora");
  write_table();
  const std::string keys =
      "{type: encoder, layers: 2, heads: 4, width: 16, mlp_width: 40, context: 12, vocabulary: 31, segments: 3,"
      "init_from: " +
      support::source_path("tests/golden/encoders/lora.safetensors") +
      ", lora: {rank: 3, alpha: 7, modules_to_save: [pooler, classifier]}}";
  const std::string model = "model=" + keys;
  const Weights trained = weights_of(kEncoder, {.overrides = {model, "data.tokens.max_length=12"}});
  const store::LoadedState state = newest_state();
  const schema::Recipe recipe = schema::read_recipe(path("recipe.yaml").string(), std::span(&model, 1)).recipe;
  export_adapter({.state = state, .recipe = &recipe}, path("").string());

  const formats::SafetensorsFile file(path("adapter_model.safetensors").string());
  const testing::Golden tensors = item["adapter"]["tensors"];
  EXPECT_EQ(file.tensors().size(), tensors.keys().size());
  for (const std::string& name : tensors.keys()) {
    const formats::NamedTensor* const tensor = file.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    const std::vector<double> shape = tensors[name].numbers();
    EXPECT_EQ(std::vector<double>(tensor->shape.dims().begin(), tensor->shape.dims().end()), shape) << name;
    const auto& bytes = trained.at("model/" + name.substr(std::string_view("base_model.model.").size()));
    EXPECT_TRUE(std::ranges::equal(tensor->bytes, bytes)) << name;
  }
  const support::Json config = support::Json::parse(*read_file(path("adapter_config.json").string())),
                      peft = support::Json::parse(*read_file(support::source_path("tests/golden/encoders.json")));
  for (const support::Json& each : peft["cases"].items()) {
    if (each["name"].text() != "lora") continue;
    for (const std::string& key : each["adapter"]["config"].keys())
      EXPECT_EQ(config[key], each["adapter"]["config"][key]) << key;
  }
  EXPECT_EQ(config["task_type"].text(), "SEQ_CLS");
}

// ---- recomputed blocks ---------------------------------------------------------------------------------------------

TEST_F(FineTuning, RecomputedBlocksGiveTheSameBits) {
  write_table();
  const std::string llama = std::string(kGpt).replace(std::string_view(kGpt).find("gpt"), 3, "llama");
  for (const std::string& recipe : {std::string(kGpt), llama, std::string(kEncoder)})
    for (const char* const device : {"backend=cpu", "backend=gpu", "backend=tpu"})
      for (const char* const precision : {"mixed_precision=no", "mixed_precision=bf16"}) {
        SCOPED_TRACE(fmt::format("{} {}\n{}", device, precision, recipe));
        std::vector<std::string> keys{device,
                                      precision,
                                      "num_processes=1",
                                      "model.dropout=0.1",
                                      "log.every=1 step",
                                      "gradient_accumulation_steps=2"};
        const Weights kept = weights_of(recipe, {.overrides = keys});
        const auto losses = points("train/loss");
        keys.emplace_back("model.remat=block");
        EXPECT_EQ(weights_of(recipe, {.overrides = keys}), kept);
        EXPECT_EQ(points("train/loss"), losses);
      }
}
}  // namespace
}  // namespace runner::train
