// Convolutional networks against PyTorch and torchvision: logits, losses, running statistics, on every backend, with
// several ranks and micro-batches; and how they are resumed, averaged and frozen.
#include <cmath>
#include <list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/formats/safetensors.h"
#include "runner/model/models.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/bytes.h"
#include "tests/support/thrown_text.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::Shape;
using support::numbers_of;
using testing::Golden;
using Names = std::vector<std::string>;
using State = std::map<std::string, std::vector<std::byte>>;  // sections

constexpr double kLogitTolerance = 1e-5, kTenStepTolerance = 1e-4;
constexpr double kRoundingOfBf16 = 0.1, kRoundingOfF16 = 0.02;  // of losses of about 2, after ten steps

// ---- values by a formula, as in tests/golden/cnn.py

// FNV-1a of the name, and the finalizer of MurmurHash3 of each index.
std::vector<uint32_t> hashes_of(const std::string& name, int64_t count) {
  uint32_t seed = 2166136261;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619;
  std::vector<uint32_t> hashes(static_cast<size_t>(count));
  for (size_t i = 0; i < hashes.size(); ++i) {
    uint32_t h = seed + static_cast<uint32_t>(i) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x85EBCA6BU;
    h = (h ^ h >> 13) * 0xC2B2AE35U;
    hashes[i] = h ^ h >> 16;
  }
  return hashes;
}

std::vector<float> values_of(const std::string& name, int64_t count, double low, double high) {
  std::vector<float> values;
  for (const uint32_t hash : hashes_of(name, count))
    values.push_back(static_cast<float>(low + (high - low) * (hash >> 8) / 16777216.0));
  return values;
}

std::vector<float> tensor_of(const std::string& name, const Shape& shape) {
  const int64_t count = shape.elements();
  if (name.ends_with("running_var")) return values_of(name, count, 0.5, 1.5);
  if (name.ends_with("weight") && shape.rank() == 1) return values_of(name, count, 0.3, 0.9);
  if (shape.rank() == 1) return values_of(name, count, -0.2, 0.2);
  const int64_t fan_in = count / shape[0];
  const double bound = std::sqrt(6.0 / static_cast<double>(fan_in));
  return values_of(name, count, -bound, bound);
}

// Tensors of a file, with their values.
class TensorFile {
 public:
  void add(const std::string& name, const Shape& shape) { add(name, shape, tensor_of(name, shape)); }
  void add(const std::string& name, const Shape& shape, std::vector<float> values) {
    floats_.push_back(std::move(values));
    tensors_.push_back({name, DType::kF32, shape, std::as_bytes(std::span(floats_.back()))});
  }
  void add(const std::string& name, const Shape& shape, std::vector<int64_t> values) {
    integers_.push_back(std::move(values));
    tensors_.push_back({name, DType::kI64, shape, std::as_bytes(std::span(integers_.back()))});
  }
  void erase(std::string_view name) {
    std::erase_if(tensors_, [&](const formats::NamedTensor& tensor) { return tensor.name == name; });
  }
  void write(const std::filesystem::path& path) const { formats::write_safetensors(path, tensors_); }

 private:
  std::list<std::vector<float>> floats_;
  std::list<std::vector<int64_t>> integers_;
  std::vector<formats::NamedTensor> tensors_;
};

// ---- trainings

const std::vector<std::string> kF32Backends[] = {
    {"backend=cpu"}, {"backend=gpu"}, {"backend=tpu", "num_processes=1", "tpu.matmul_precision=highest"}};

std::vector<std::string> both(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> with_ranks(std::vector<std::string> backend, int ranks) {
  std::erase(backend, "num_processes=1");
  return both(backend, {"split_batches=true", fmt::format("num_processes={}", ranks), "threads=1"});
}

// The recipe with batch norms that use the statistics of all ranks.
std::string synchronised(std::string recipe) {
  for (const auto& [old, now] : {std::pair{", batch_norm,", ", {batch_norm: {sync: true}},"},
                                 std::pair{"{momentum: 0.3,", "{sync: true, momentum: 0.3,"}}) {
    const size_t at = recipe.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    recipe.replace(at, std::string_view(old).size(), now);
  }
  return recipe;
}

class CnnGolden : public RunFixture {
 protected:
  // Writes the images of a case, and weights for `outputs` classes.
  void write_files(const Golden& item, int64_t outputs = 0) {
    const Golden file = Golden::load("cnn.json");
    const int64_t classes = file["classes"].integer(), samples = file["samples"].integer();
    std::vector<int64_t> dims{samples};
    for (const int64_t size : item["sample"].integers()) dims.push_back(size);
    std::vector<float> images = values_of("images", Shape(dims).elements(), -1, 1);
    std::vector<int64_t> labels;
    for (const uint32_t hash : hashes_of("labels", samples)) labels.push_back((hash >> 8) % classes);
    for (const char* const name : {"images", "first"}) {
      TensorFile data;
      data.add("features", Shape(dims), images);
      data.add("labels", {dims[0]}, labels);
      data.write(path(fmt::format("{}.safetensors", name)));
      images.resize(images.size() / static_cast<size_t>(samples) * file["batch"].integer());
      labels.resize(static_cast<size_t>(dims[0] = file["batch"].integer()));
    }
    dims.erase(dims.begin());
    weights_of(read(item).recipe.model, Shape(dims), outputs > 0 ? outputs : classes)
        .write(path("weights.safetensors"));
  }

  schema::ReadResult read(const Golden& item, const std::vector<std::string>& overrides = {}) {
    write("recipe.yaml", item["recipe"].text());
    return schema::read_recipe(path("recipe.yaml").string(), overrides);
  }

  // All tensors of a model, without counts of batches.
  static TensorFile weights_of(const schema::ModelSpec& spec, const Shape& sample, int64_t outputs) {
    data::Encoding encoding;
    encoding.feature_shape = sample;
    encoding.label_kind = data::LabelKind::kClass;
    encoding.outputs = outputs;
    const nn::Model model = nn::build_model(spec, encoding);
    TensorFile file;
    for (const nn::Parameter& parameter : model.parameters.parameters()) file.add(parameter.name, parameter.shape);
    for (const nn::ModelBuffer& buffer : model.parameters.model_buffers())
      if (!buffer.is_count()) file.add(buffer.name, buffer.type.shape);
    return file;
  }

  // The final state. Several ranks are threads.
  State trained(const std::string& recipe, Options options) {
    const bool has_ranks = std::ranges::any_of(
        options.overrides, [](const std::string& key) { return key.starts_with("num_processes="); });
    if (has_ranks) options.transport = [](int size, const auto& body) { backends::testing::on_threads(size, body); };
    result_ = train(recipe, options);
    EXPECT_FALSE(result_.error.has_value()) << result_.error->message;
    State state = last_state(options.store);
    state.erase("run");
    return state;
  }
  State trained(const std::string& recipe, const std::string& store, const std::vector<std::string>& overrides) {
    return trained(recipe, Options{.store = store, .overrides = overrides});
  }

  std::vector<double> losses(const std::string& store) const {
    std::vector<double> values;
    for (const auto& [step, loss] : points("train/loss", store)) values.push_back(loss);
    return values;
  }
  void expect_losses(const std::string& store, const Golden& want, double tolerance) const {
    const std::vector<double> got = losses(store), expected = want["loss"].numbers();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "step " << i + 1;
  }

  RunResult result_;
};

// The file has the first elements of each running statistic.
void expect_running(const State& state, const Golden& want) {
  for (const std::string& name : want["running"].keys()) {
    SCOPED_TRACE(name);
    const testing::GoldenTensor tensor = want["running"][name].tensor();
    const std::vector<std::byte>& bytes = state.at("buffer/" + name);
    if (tensor.dtype == DType::kI64) {
      EXPECT_EQ(numbers_of<int64_t>(bytes), tensor.integers);
      continue;
    }
    const std::vector<float> got = numbers_of<float>(bytes);
    for (size_t i = 0; i < tensor.values.size(); ++i)
      EXPECT_NEAR(got[i], tensor.values[i], 1e-4 * (1 + std::fabs(tensor.values[i]))) << i;
  }
}

// The rest of the names of sections with this prefix that differ.
std::vector<std::string> changed(const State& before, const State& after, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : before)
    if (name.starts_with(prefix) && bytes != after.at(name)) names.push_back(name.substr(prefix.size()));
  return names;
}

class CnnCase : public CnnGolden, public ::testing::WithParamInterface<const char*> {
 protected:
  CnnCase() { write_files(item_); }

  const Golden item_ = Golden::load("cnn.json").find(GetParam());
};

TEST_P(CnnCase, LogitsMatchPyTorch) {
  const std::vector<double> want = item_["logits"].tensor().values;
  for (const std::vector<std::string>& backend : kF32Backends) {
    SCOPED_TRACE(backend.front());
    const schema::ReadResult recipe = read(item_, backend);
    Session session(recipe.recipe, nullptr, nullptr);
    session.trainer.allocate();
    const Outputs got = Evaluator(session.trainer, *session.data.eval, recipe.recipe, nullptr).predict();
    ASSERT_EQ(got.values.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got.values[i], want[i], kLogitTolerance) << i;
  }
}

TEST_P(CnnCase, TrainsAsInPyTorchWithTheSameBitsOnEveryBackend) {
  State of_cpu;
  for (const std::vector<std::string>& backend : kF32Backends) {
    SCOPED_TRACE(backend.front());
    const std::string store = backend.front() + ".db";
    State state = trained(item_["recipe"].text(), store, backend);
    state.erase("sums");  // of the losses since the last point: none
    if (of_cpu.empty()) {
      expect_losses(store, item_, kTenStepTolerance);
      expect_running(state, item_);
      of_cpu = state;
    }
    EXPECT_EQ(changed(of_cpu, state, ""), Names{});
    EXPECT_EQ(losses(store), losses(kF32Backends[0].front() + ".db"));
  }
}

TEST_P(CnnCase, TrainsInSixteenBitsWithinTheirRounding) {
  const auto expect_with = [&](const std::vector<std::string>& overrides, double tolerance) {
    SCOPED_TRACE(overrides.front());
    const std::string store = fmt::format("{}.db", fmt::join(overrides, " "));
    trained(item_["recipe"].text(), store, overrides);
    expect_losses(store, item_, tolerance);
  };
  expect_with({"mixed_precision=bf16"}, kRoundingOfBf16);
  // Weights of 8 bits do not take the small steps of the resnets.
  if (item_.name().starts_with("resnet")) return;
  for (const char* const backend : {"backend=gpu", "backend=tpu"})
    expect_with({backend, "num_processes=1", "mixed_precision=bf16"}, kRoundingOfBf16);
  expect_with({"backend=tpu", "num_processes=1"}, kRoundingOfBf16);  // products of bf16 operands
  for (const char* const backend : {"backend=cpu", "backend=gpu"})
    expect_with({backend, "num_processes=1", "mixed_precision=fp16", "scaler.init_scale=1024"}, kRoundingOfF16);
}

INSTANTIATE_TEST_SUITE_P(Networks, CnnCase,
                         ::testing::Values("plain/sgd", "plain/adamw", "grouped/sgd", "grouped/adamw", "normed/sgd",
                                           "normed/adamw", "resnet18_small/sgd", "resnet18_imagenet/sgd"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// ---- ranks and micro-batches

class NormedCnn : public CnnGolden {
 protected:
  NormedCnn() { write_files(item_); }

  const Golden item_ = Golden::load("cnn.json").find("normed/sgd");
  const Golden variants_ = Golden::load("cnn.json")["variants"];
  const std::string recipe_ = item_["recipe"].text();
};

TEST_F(NormedCnn, WithTheStatisticsOfAllRanksTrainsAsOne) {
  for (const int ranks : {2, 3, 8}) {
    State of_cpu;
    for (const std::vector<std::string>& backend : kF32Backends) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, backend.front()));
      const std::string store = fmt::format("{}{}.db", ranks, backend.front());
      const State state = trained(synchronised(recipe_), store, with_ranks(backend, ranks));
      expect_losses(store, item_, 1e-5);
      expect_running(state, item_);
      if (of_cpu.empty()) of_cpu = state;
      EXPECT_EQ(changed(of_cpu, state, "model/"), Names{});
    }
  }
}

TEST_F(NormedCnn, WithoutThemTrainsAsDistributedDataParallel) {
  for (const int ranks : {2, 4}) {
    State of_cpu;
    for (const std::vector<std::string>& backend : kF32Backends) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, backend.front()));
      const Golden want = variants_[fmt::format("ranks_{}", ranks)];
      const std::string store = fmt::format("{}{}.db", ranks, backend.front());
      const State state = trained(recipe_, store, with_ranks(backend, ranks));
      expect_losses(store, want, kTenStepTolerance);
      expect_running(state, want);
      if (of_cpu.empty()) of_cpu = state;
      EXPECT_EQ(changed(of_cpu, state, "model/"), Names{});
    }
  }
}

TEST_F(NormedCnn, AccumulatesGradientsOfMicroBatches) {
  const State state = trained(recipe_, "runner.db", {"data.batch_size=4", "gradient_accumulation_steps=2"});
  expect_losses("runner.db", variants_["micro_batches_2"], kTenStepTolerance);
  expect_running(state, variants_["micro_batches_2"]);
}

// ---- resumed, averaged, frozen

constexpr const char* kDropped = R"(schema_version: 1
name: dropped
seed: 3
model:
  type: cnn
  stack:
    - {conv: 6, kernel: 3, padding: same}
    - batch_norm
    - relu
    - {dropout: 0.3}
    - {max_pool: 2}
    - flatten
    - {dropout: 0.2}
data:
  train: {format: synthetic, samples: 52, features: [2, 7, 6], classes: 3}
  eval: {format: synthetic, samples: 30, features: [2, 7, 6], classes: 3}
  batch_size: 8
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 2, ema: 0.8}
eval: {every: 2 steps}
checkpoint: {every: 1 step}
)";

class SmallCnn : public CnnGolden {};

TEST_F(SmallCnn, ResumesInTheMiddleOfAnEpoch) {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{},
        {"backend=gpu", "mixed_precision=fp16"},
        {"backend=tpu"},
        {"num_processes=2", "split_batches=true", "gradient_accumulation_steps=2"}}) {
    const std::string name = overrides.empty() ? "plain" : overrides.front();
    const State whole = trained(kDropped, name + ".db", overrides);
    EXPECT_TRUE(whole.contains("buffer_average/1.running_var"));
    const int64_t steps = result_.optimizer_steps;
    for (int64_t stop = 1; stop < steps; stop += 3) {
      SCOPED_TRACE(fmt::format("{}, interrupted after step {}", name, stop));
      const std::string store = fmt::format("{}{}.db", name, stop);
      trained(kDropped, Options{.store = store, .overrides = overrides, .stop_after = stop});
      EXPECT_TRUE(trained(kDropped, Options{.store = store, .resume = "@last", .overrides = overrides}) == whole);
      EXPECT_EQ(points("eval/loss", store), points("eval/loss", name + ".db"));
    }
  }
}

// A backbone that stays as it is, in training too.
TEST_F(SmallCnn, FrozenInWholeHasTheSameFeatures) {
  std::string recipe = kDropped;
  recipe.replace(recipe.find("- batch_norm"), 12, "- {batch_norm: {frozen: all}}");
  const std::vector<std::string> freeze{"model.freeze=['0.*']", "train.epochs=null", "train.steps=1"};
  for (const std::vector<std::string>& backend : kF32Backends) {
    const State early = trained(recipe, backend.front() + "1.db", both(backend, freeze));
    const State late = trained(recipe, backend.front() + "2.db", both(backend, {"model.freeze=['0.*']"}));
    EXPECT_EQ(changed(early, late, "model/"), (Names{"7.bias", "7.weight"}));
    EXPECT_EQ(changed(early, late, "buffer/"), Names{});
  }
}

class SmallResnet : public CnnGolden {
 protected:
  SmallResnet() { write_files(item_); }

  State after(int steps, const std::vector<std::string>& overrides) {
    return trained(item_["recipe"].text(), fmt::format("{}.db", steps),
                   both(overrides, {fmt::format("train.steps={}", steps)}));
  }
  std::string error_with(const std::vector<std::string>& overrides) {
    const std::string text =
        support::thrown_text([&] { Session session(read(item_, overrides).recipe, nullptr, nullptr); });
    const size_t folder = text.find(path("").string());
    return folder == std::string::npos ? text : std::string(text).erase(folder, path("").string().size());
  }

  const Golden item_ = Golden::load("cnn.json").find("resnet18_small/sgd");
};

TEST_F(SmallResnet, FreezesByPattern) {
  const auto is_of_first_layer = [](const std::string& name) { return name.starts_with("layer1."); };
  const auto is_of_norm = [](const std::string& name) {
    return name.find("bn") != std::string::npos || name.find("downsample.1") != std::string::npos;
  };
  const Names trained_without =
      changed(after(1, {"model.freeze=['layer1.*']"}), after(2, {"model.freeze=['layer1.*']"}), "model/");
  EXPECT_EQ(trained_without.size(), 62U - 12);
  EXPECT_TRUE(std::ranges::none_of(trained_without, is_of_first_layer));
  const Names trained_convs = changed(after(3, {"model.freeze=[norms]"}), after(4, {"model.freeze=[norms]"}), "model/");
  EXPECT_EQ(trained_convs.size(), 62U - 40);
  EXPECT_TRUE(std::ranges::none_of(trained_convs, is_of_norm));
}

TEST_F(SmallResnet, ANewHeadMayHaveOtherClasses) {
  write_files(item_, /*outputs=*/1000);
  EXPECT_EQ(error_with({}),
            "model.init_from: expected shape (5, 512) of fc.weight in weights.safetensors, got "
            "(1000, 512); model.new_head: true starts with a new output layer");
  const State state =
      trained(item_["recipe"].text(), "runner.db", {"model.new_head=true", "optimizer.lr=0", "train.steps=1"});
  const Names& warnings = result_.warnings;
  EXPECT_EQ(std::ranges::count(warnings,
                               fmt::format("model.init_from: 60 of 62 parameters come from {}; newly initialized: 2 "
                                           "(fc.weight, fc.bias); not used: 2 (fc.bias, fc.weight)",
                                           path("weights.safetensors").string())),
            1)
      << fmt::format("{}", fmt::join(warnings, "\n"));
  EXPECT_EQ(numbers_of<float>(state.at("model/conv1.weight")), tensor_of("conv1.weight", {64, 3, 3, 3}));
  EXPECT_EQ(state.at("model/fc.bias").size(), 5 * sizeof(float));
  for (const float bias : numbers_of<float>(state.at("model/fc.bias")))
    EXPECT_LE(std::fabs(bias), 1 / std::sqrt(512.0));
}

}  // namespace
}  // namespace runner::train
