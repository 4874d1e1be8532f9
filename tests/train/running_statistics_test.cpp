// Running statistics of batch norm in whole runs: against PyTorch, on several ranks, resumed, averaged, frozen.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "runner/formats/safetensors.h"
#include "runner/model/norms.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/stored_model.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/golden/golden.h"
#include "tests/support/bytes.h"
#include "tests/support/thrown_text.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

using support::numbers_of;
using testing::Golden;
using testing::GoldenTensor;
using State = std::map<std::string, std::vector<std::byte>>;  // sections

// Linear(5, 8), BatchNorm1d(8), ReLU, Linear(8, 3).
nn::ModulePtr mlp(const nn::BatchNormOptions& options) {
  return nn::sequential(
      {nn::linear(5, 8), nn::batch_norm(8, 1, options), nn::activation(schema::Activation::kRelu), nn::linear(8, 3)});
}

// BatchNorm1d(1), Linear(1, 2): the statistics are those of the data.
nn::ModulePtr norm_of_data(const nn::BatchNormOptions& options) {
  return nn::sequential({nn::batch_norm(1, 1, options), nn::linear(1, 2)});
}

MakeHooks with_mlp(const nn::BatchNormOptions& options = {}) {
  return hooks_with({.model = [options] { return mlp(options); }});
}

constexpr const char* kMlp = R"(schema_version: 1
name: normed
seed: 3
model: {type: hook}
data:
  train: {format: synthetic, samples: 52, features: [5], classes: 3}
  eval: {format: synthetic, samples: 30, features: [5], classes: 3}
  batch_size: 8
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 2}
eval: {every: 2 steps}
checkpoint: {every: 1 step}
)";

// One number per sample; the optimizer changes nothing.
constexpr const char* kFourSamples = R"(schema_version: 1
model: {type: hook}
data:
  train: {format: csv, path: four.csv, label: y}
  batch_size: 4
  shuffle: false
optimizer: {type: sgd, lr: 0}
train: {epochs: 1}
)";

class RunningStatistics : public RunFixture {
 protected:
  // Trains BatchNorm1d(1) on 1, 3, 5, 9 and returns its mean and variance.
  std::array<float, 2> of_four_samples(const nn::BatchNormOptions& options, std::vector<std::string> overrides) {
    write("four.csv", "x,y\n1,0\n3,1\n5,0\n9,1\n");
    overrides.push_back("data.normalize=none");
    const MakeHooks hooks = hooks_with({.model = [options] { return norm_of_data(options); }});
    run_on_ranks({.overrides = std::move(overrides), .make_hooks = hooks}, kFourSamples);
    if (result_.exit_code != 0) return {};
    const State state = last_state();
    return {numbers_of<float>(state.at("buffer/0.running_mean"))[0],
            numbers_of<float>(state.at("buffer/0.running_var"))[0]};
  }

  // Sets result_. Several ranks are threads.
  void run_on_ranks(const Options& options, const char* recipe = kMlp) {
    Options now = options;
    if (!now.make_hooks) now.make_hooks = with_mlp();
    const bool has_ranks = std::ranges::any_of(
        now.overrides, [](const std::string& key) { return key.starts_with("num_processes=") && key.back() != '1'; });
    if (has_ranks) now.transport = [](int size, const auto& body) { backends::testing::on_threads(size, body); };
    result_ = train(recipe, now);
  }

  State final_state(const Options& options, const char* recipe = kMlp) {
    run_on_ranks(options, recipe);
    EXPECT_FALSE(result_.error.has_value()) << result_.error->message;
    State state = last_state(options.store);
    state.erase("run");
    return state;
  }

  schema::Recipe recipe_of(const std::string& text) {
    write("r.yaml", text);
    return schema::read_recipe(path("r.yaml").string()).recipe;
  }

  RunResult result_;
};

void expect_all_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

void expect_close(const State& got, const State& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, bytes] : want) {
    SCOPED_TRACE(name);
    if (name.starts_with("model/") || name.ends_with("running_mean") || name.ends_with("running_var"))
      expect_all_close(numbers_of<float>(got.at(name)), numbers_of<float>(bytes), tolerance);
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(got.at(name), bytes);
    }
  }
}

TEST_F(RunningStatistics, TrainingMatchesPyTorch) {
  const Golden item = Golden::load("batch_norm.json").find("training");
  std::vector<formats::NamedTensor> tensors;
  std::vector<std::vector<std::byte>> contents;
  for (const std::string& name : item["initial"].keys()) {
    const GoldenTensor tensor = item["initial"][name].tensor();
    const auto floats = tensor.as<float>();
    const auto integers = tensor.as<int64_t>();
    const auto bytes =
        tensor.dtype == backends::DType::kI64 ? std::as_bytes(std::span(integers)) : std::as_bytes(std::span(floats));
    contents.emplace_back(bytes.begin(), bytes.end());
    tensors.push_back({name, tensor.dtype, tensor.shape, {}});
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = contents[i];
  const std::vector<std::byte> file = formats::safetensors_bytes(tensors, {});
  write("initial.safetensors", {reinterpret_cast<const char*>(file.data()), file.size()});
  const std::vector<float> x = item["x"].tensor().as<float>();
  const std::vector<int64_t> labels = item["labels"].tensor().integers;
  std::string table = "a,b,c,d,e,label\n";
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t f = 0; f < 5; ++f) table += fmt::format("{},", x[i * 5 + f]);
    table += fmt::format("{}\n", labels[i]);
  }
  write("table.csv", table);
  const State final = final_state({}, R"(schema_version: 1
model: {type: hook, init_from: initial.safetensors}
data:
  train: {format: csv, path: table.csv, label: label}
  eval: {format: csv, path: table.csv, label: label}
  batch_size: 8
  shuffle: false
  normalize: none
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 2}
log: {every: 1 step}
)");
  const auto losses = points("train/loss");
  const std::vector<double> expected = item["loss"].numbers();
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i].second, expected[i], 1e-5) << i;
  for (const std::string& name : item["final"].keys()) {
    SCOPED_TRACE(name);
    const GoldenTensor tensor = item["final"][name].tensor();
    if (tensor.dtype == backends::DType::kI64) {
      EXPECT_EQ(numbers_of<int64_t>(final.at("buffer/" + name)), tensor.integers);
    } else {
      const bool is_buffer = final.contains("buffer/" + name);
      expect_all_close(numbers_of<float>(final.at((is_buffer ? "buffer/" : "model/") + name)), tensor.as<float>(),
                       2e-5);
    }
  }
  EXPECT_NEAR(points("eval/loss").back().second, item["evaluated"].number(), 1e-5);
}

TEST_F(RunningStatistics, EachMicroBatchMovesThemOnce) {
  const auto [mean, variance] = of_four_samples({}, {});
  EXPECT_NEAR(mean, 0.45, 1e-6);
  EXPECT_NEAR(variance, 2.066667, 1e-6);
  for (const char* const accumulation : {"gradient_accumulation_steps=2", "gradient_accumulation_steps=1"}) {
    const auto [of_parts, variance_of_parts] = of_four_samples({}, {"data.batch_size=2", accumulation});
    EXPECT_NEAR(of_parts, 0.88, 1e-6);
    EXPECT_NEAR(variance_of_parts, 1.79, 1e-6);
  }
  const auto [plain, plain_variance] = of_four_samples({.momentum = std::nullopt}, {"data.batch_size=2"});
  EXPECT_NEAR(plain, 4.5, 1e-6);
  EXPECT_NEAR(plain_variance, 5, 1e-6);
}

// Ranks with (1, 3, 5) and (9), and with (1, 3, 5) and (9) followed by repeats.
TEST_F(RunningStatistics, OfUnevenRanksUseTheCountsOfAll) {
  for (const char* const even : {"true", "false"}) {
    SCOPED_TRACE(even);
    const std::vector<std::string> overrides{"num_processes=2", "data.batch_size=3",
                                             fmt::format("data.even_batches={}", even)};
    const auto [mean, variance] = of_four_samples({.sync = true}, overrides);
    EXPECT_EQ(result_.error, std::nullopt);
    EXPECT_NEAR(mean, 0.45, 1e-6);
    EXPECT_NEAR(variance, 0.9 + 0.1 * 35 / 3, 1e-6);
  }
  // Without sync, those of rank 0.
  const auto [mean, variance] = of_four_samples({}, {"num_processes=2", "data.batch_size=2"});
  EXPECT_NEAR(mean, 0.2, 1e-6);
  EXPECT_NEAR(variance, 1.1, 1e-6);
}

constexpr const char* kDevices[] = {"backend=cpu", "backend=gpu", "backend=tpu tpu.matmul_precision=highest"};

std::vector<std::string> words_of(const std::string& text) {
  const size_t space = text.find(' ');
  if (space == std::string::npos) return {text};
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<std::string> joined(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(RunningStatistics, OfAllRanksEqualThoseOfOne) {
  const std::vector<std::string> ranks{"split_batches=true"};
  const State one = final_state({.store = "one.db", .make_hooks = with_mlp({.sync = true})});
  const auto losses = points("eval/loss", "one.db");
  for (const int count : {2, 8}) {
    SCOPED_TRACE(count);
    const std::string store = fmt::format("{}.db", count);
    const State all = final_state({.store = store,
                                   .overrides = {"split_batches=true", fmt::format("num_processes={}", count)},
                                   .make_hooks = with_mlp({.sync = true})});
    expect_close(all, one, 1e-5);
    const auto of_all = points("eval/loss", store);
    ASSERT_EQ(of_all.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(of_all[i].second, losses[i].second, 1e-5);
  }
}

TEST_F(RunningStatistics, HaveTheSameBitsOnAllDevices) {
  for (const bool sync : {false, true}) {
    for (const int count : {1, 2, 3}) {
      State expected;
      for (const char* const device : kDevices) {
        SCOPED_TRACE(fmt::format("sync {}, {} ranks, {}", sync, count, device));
        const State state = final_state(
            {.store = fmt::format("{}{}{}.db", sync, count, words_of(device)[0]),
             .overrides = joined(words_of(device), {"split_batches=true", fmt::format("num_processes={}", count)}),
             .make_hooks = with_mlp({.sync = sync})});
        if (expected.empty()) expected = state;
        EXPECT_EQ(state, expected);
      }
    }
  }
}

TEST_F(RunningStatistics, ResumeAtAnyStep) {
  const std::vector<std::vector<std::string>> variants{{},
                                                       {"num_processes=2", "split_batches=true"},
                                                       {"gradient_accumulation_steps=3", "train.ema=0.5"},
                                                       {"train.swa={start: 2 steps, every: 2 steps}"}};
  for (size_t v = 0; v < variants.size(); ++v) {
    for (const bool plain_mean : {false, true}) {
      const nn::BatchNormOptions options{.momentum = plain_mean ? std::nullopt : std::optional(0.1)};
      const std::string name = fmt::format("{}{}", v, plain_mean);
      const State whole =
          final_state({.store = name + ".db", .overrides = variants[v], .make_hooks = with_mlp(options)});
      const int64_t steps = result_.optimizer_steps;
      for (int64_t stop = 1; stop < steps; stop += 2) {
        SCOPED_TRACE(fmt::format("{}, interrupted after step {}", name, stop));
        const std::string store = fmt::format("{}.{}.db", name, stop);
        run_on_ranks({.store = store, .overrides = variants[v], .stop_after = stop, .make_hooks = with_mlp(options)});
        EXPECT_EQ(
            final_state({.store = store, .resume = "@last", .overrides = variants[v], .make_hooks = with_mlp(options)}),
            whole);
        EXPECT_EQ(points("eval/loss", store), points("eval/loss", name + ".db"));
      }
    }
  }
}

// The averages follow those of the weights: with decay d, a ← d a + (1 − d) s after each step, beginning with the
// statistics of the first step.
TEST_F(RunningStatistics, AreAveragedLikeTheWeights) {
  for (const char* const device : {"backend=cpu", "mixed_precision=fp16", "num_processes=2"}) {
    SCOPED_TRACE(device);
    std::vector<float> expected;
    for (int step = 1; step <= 4; ++step) {
      const State state = final_state(
          {.store = fmt::format("{}{}.db", device, step),
           .overrides = {device, "train.epochs=null", fmt::format("train.steps={}", step), "train.ema=0.8"}});
      const std::vector<float> now = numbers_of<float>(state.at("buffer/1.running_var"));
      if (expected.empty()) expected = now;
      for (size_t i = 0; i < now.size(); ++i) expected[i] = 0.8f * expected[i] + 0.2f * now[i];
      expect_all_close(numbers_of<float>(state.at("buffer_average/1.running_var")), expected, 1e-6);
      EXPECT_FALSE(state.contains("buffer_average/1.num_batches_tracked"));
    }
  }
}

// With a decay of 0 the averages are the newest weights and statistics.
TEST_F(RunningStatistics, OfAveragedWeightsAreUsedInEvaluations) {
  final_state({.store = "plain.db"});
  final_state({.store = "newest.db", .overrides = {"train.ema=0"}});
  EXPECT_EQ(points("eval/loss", "newest.db"), points("eval/loss", "plain.db"));
}

TEST_F(RunningStatistics, OfFrozenWeightsMove) {
  const State frozen = final_state({.store = "frozen.db", .overrides = {"model.freeze=[norms]"}});
  EXPECT_EQ(numbers_of<float>(frozen.at("model/1.weight")), std::vector<float>(8, 1.0f));
  EXPECT_EQ(numbers_of<int64_t>(frozen.at("buffer/1.num_batches_tracked")), std::vector<int64_t>{14});
  const State statistics =
      final_state({.store = "statistics.db", .make_hooks = with_mlp({.frozen = schema::FrozenNorm::kStatistics})});
  EXPECT_EQ(numbers_of<float>(statistics.at("buffer/1.running_var")), std::vector<float>(8, 1.0f));
  EXPECT_EQ(numbers_of<float>(statistics.at("buffer/1.running_mean")), std::vector<float>(8, 0.0f));
  EXPECT_NE(numbers_of<float>(statistics.at("model/1.weight")), std::vector<float>(8, 1.0f));
  const State all = final_state({.store = "all.db", .make_hooks = with_mlp({.frozen = schema::FrozenNorm::kAll})});
  EXPECT_EQ(numbers_of<float>(all.at("model/1.weight")), std::vector<float>(8, 1.0f));
}

TEST_F(RunningStatistics, OfAForkAreThoseOfItsState) {
  final_state({.overrides = {"train.epochs=1"}});
  const std::string parent = result_.run;
  const State before = last_state();
  result_ =
      train(kMlp, {.fork = parent, .overrides = {"train.epochs=2", "optimizer.lr=0.01"}, .make_hooks = with_mlp()});
  ASSERT_EQ(result_.error, std::nullopt);
  EXPECT_EQ(numbers_of<int64_t>(last_state().at("buffer/1.num_batches_tracked")), std::vector<int64_t>{14});
  EXPECT_EQ(numbers_of<int64_t>(before.at("buffer/1.num_batches_tracked")), std::vector<int64_t>{7});
}

// A hook's loop moves them like the declared loop.
TEST_F(RunningStatistics, OfAHooksLoopMoveWithEachForwardPass) {
  const auto hooks = [](bool sync) {
    return hooks_with({.train = [](CustomLoop& loop, HookRun&) { train_epochs(loop); },
                       .model = [sync] { return mlp({.sync = sync}); }});
  };
  const State one = final_state({.store = "one.db", .make_hooks = hooks(true)});
  EXPECT_EQ(numbers_of<int64_t>(one.at("buffer/1.num_batches_tracked")), std::vector<int64_t>{14});
  for (const char* const device : kDevices) {
    SCOPED_TRACE(device);
    const State two = final_state({.store = fmt::format("two{}.db", words_of(device)[0]),
                                   .overrides = joined(words_of(device), {"num_processes=2", "split_batches=true"}),
                                   .make_hooks = hooks(true)});
    expect_close(two, one, 1e-5);
  }
  const State part = final_state({.store = "averaged.db", .overrides = {"train.ema=0"}, .make_hooks = hooks(false)});
  EXPECT_EQ(part.at("buffer_average/1.running_mean"), part.at("buffer/1.running_mean"));
}

// ---- batches that are not finite -----------------------------------------------------------------------------------

// The squares of these numbers overflow.
constexpr const char* kLargeTable = "a,b,label\n1e30,2e30,0\n2e30,-1e30,1\n-1e30,1e30,0\n3e30,2e30,1\n";

constexpr const char* kOfLargeNumbers = R"(schema_version: 1
model: {type: hook}
data:
  train: {format: csv, path: large.csv}
  eval: {format: csv, path: large.csv}
  normalize: none
  batch_size: 2
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2}
)";

// The norm of the data makes 0 of each number, so the loss is finite, and so are the statistics of the other norm.
TEST_F(RunningStatistics, ThatLeaveOutAllBatchesAreReported) {
  write("large.csv", kLargeTable);
  const MakeHooks hooks = hooks_with({.model = [] {
    return nn::sequential({nn::batch_norm(2, 1), nn::linear(2, 4), nn::batch_norm(4, 1), nn::linear(4, 2)});
  }});
  run_on_ranks({.make_hooks = hooks}, kOfLargeNumbers);
  ASSERT_EQ(result_.error, std::nullopt);
  const auto text = [](int64_t updates) {
    return fmt::format(
        "running statistics leave out batches whose own statistics are not finite: {} updates of batch norm 0; batch "
        "norm 0 has had no other batch, so evaluations use the initial statistics; look for inf and NaN in the data, "
        "or set a smaller optimizer.lr, or mixed_precision: bf16 instead of fp16",
        updates);
  };
  const auto count = [&](const std::string& warning) { return std::ranges::count(result_.warnings, warning); };
  EXPECT_EQ(count("evaluation at step 2: " + text(2)), 1);
  EXPECT_EQ(count(text(4)), 1);
  const std::vector<std::string> recorded = events("warning");
  EXPECT_TRUE(
      std::ranges::any_of(recorded, [&](const std::string& json) { return json.find(text(4)) != std::string::npos; }));
  const State state = last_state();
  EXPECT_EQ(numbers_of<int64_t>(state.at("internal/0.num_batches_not_finite")), std::vector<int64_t>{4});
  EXPECT_EQ(numbers_of<int64_t>(state.at("internal/2.num_batches_not_finite")), std::vector<int64_t>{0});

  // So is each later evaluation.
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  const schema::Recipe recipe = recipe_of(kOfLargeNumbers);
  StoredModel model(recipe, hooks(recipe), store::load_state(store, result_.states.back()));
  model.evaluate("");
  EXPECT_EQ(model.warnings(), std::vector<std::string>{text(4)});
}

// A state with impossible statistics is refused.
TEST_F(RunningStatistics, ThatAreImpossibleAreRefused) {
  final_state({.overrides = {"train.epochs=1"}});
  const schema::Recipe recipe = recipe_of(kMlp);
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  store::LoadedState state = store::load_state(store, result_.states.back());
  const auto section = std::ranges::find(state.sections, "buffer/1.running_var", &store::Section::name);
  const auto set = [&](float number) { std::memcpy(&section->bytes[3 * sizeof(float)], &number, sizeof number); };
  const auto error = [&] {
    return support::thrown_text([&] { StoredModel(recipe, with_mlp()(recipe), state); }, ErrorKind::kStore);
  };
  const std::string beginning = fmt::format("state {}: buffer/1.running_var: element 3 is ", state.info.id);
  EXPECT_EQ(error(), "");
  set(-1);
  EXPECT_EQ(error(), beginning + "-1, expected finite numbers of at least 0; use another state");
  set(NAN);
  EXPECT_EQ(error(), beginning + "nan, expected finite numbers of at least 0; use another state");
  EXPECT_EQ(support::thrown_text([&] { stored_buffers(state, /*averaged=*/false); }),
            beginning + "nan, expected finite numbers; use another state");
}

// The type is the stored one, whatever the number of bytes.
TEST(StoredBuffers, HaveTheirStoredTypes) {
  const auto stored = [](const std::string& meta, size_t bytes) {
    store::LoadedState state;
    state.info.id = 7;
    state.sections.push_back({"buffer/a", meta, std::vector<std::byte>(bytes)});
    return stored_buffers(state, /*averaged=*/false).front().type;
  };
  using backends::DType;
  using backends::TensorType;
  EXPECT_EQ(stored(R"({"dtype":"i64","shape":[]})", 8), (TensorType{DType::kI64, {}}));
  EXPECT_EQ(stored(R"({"dtype":"f64","shape":[2]})", 16), (TensorType{DType::kF64, {2}}));
  EXPECT_EQ(stored(R"({"dtype":"f32","shape":[0]})", 0), (TensorType{DType::kF32, {0}}));
  const auto error = [&](const std::string& meta, size_t bytes) {
    return support::thrown_text([&] { stored(meta, bytes); }, ErrorKind::kStore);
  };
  EXPECT_EQ(error(R"({"dtype":"f12","shape":[2]})", 8), "state 7: the description of buffer/a is damaged");
  EXPECT_EQ(error(R"({"shape":[2]})", 8), "state 7: the description of buffer/a is damaged");
  EXPECT_EQ(error(R"({"dtype":"f32","shape":[2]})", 16), "state 7: buffer/a is damaged: expected 8 bytes, got 16");
}

// ---- frozen layers
// ---------------------------------------------------------------------------------------------------

// A backbone with a batch norm, and an output layer.
nn::ModulePtr with_backbone(schema::FrozenNorm frozen) {
  const nn::ModulePtr backbone = nn::sequential(
      {nn::linear(5, 8), nn::batch_norm(8, 1, {.frozen = frozen}), nn::activation(schema::Activation::kRelu)});
  return nn::sequential({backbone, nn::linear(8, 3)});
}

// The loop of train_epochs() that keeps the features of the first batch of each epoch.
void train_and_keep_features(CustomLoop& loop, std::vector<std::vector<double>>& features) {
  const CustomLoop::Epochs epochs = loop.begin_epochs(std::nullopt);
  while (loop.next_epoch(epochs)) {
    bool is_first = true;
    loop.begin_batches(Split::kTrain);
    while (loop.next_batch(Split::kTrain)) {
      const StepInputs& inputs = loop.inputs();
      const Value here = inputs.model->members()[0]->forward(inputs.forward, inputs.features);
      if (std::exchange(is_first, false)) features.push_back(inputs.read(here));
      const Value outputs = inputs.model->members()[1]->forward(inputs.forward, here);
      loop.backward(backends::ops::mean(backends::ops::mul(outputs, outputs), std::vector<int64_t>{0, 1}));
      loop.step(0);
      loop.step_schedule();
      loop.zero_grad(0);
    }
  }
}

TEST_F(RunningStatistics, OfAFrozenBackboneGiveTheSameFeatures) {
  final_state({.make_hooks = hooks_with({.model = [] { return with_backbone(schema::FrozenNorm::kNone); }})});
  const std::string parent = result_.run;
  const State before = last_state();
  using enum schema::FrozenNorm;
  for (const schema::FrozenNorm frozen : {kNone, kStatistics, kAll}) {
    SCOPED_TRACE(name_of(frozen));
    std::vector<std::vector<double>> features;
    const MakeHooks hooks =
        hooks_with({.train = [&](CustomLoop& loop, HookRun&) { train_and_keep_features(loop, features); },
                    .model = [frozen] { return with_backbone(frozen); }});
    // With frozen: all, the weight and the bias of the norm need no pattern.
    const std::string freeze = frozen == kAll ? "model.freeze=[0.0.*]" : "model.freeze=[0.*]";
    run_on_ranks({.fork = parent, .overrides = {freeze, "data.shuffle=false", "train.epochs=4"}, .make_hooks = hooks});
    ASSERT_EQ(result_.error, std::nullopt);
    ASSERT_GE(features.size(), 2);
    EXPECT_EQ(features.front(), features.back());
    const State after = last_state();
    EXPECT_NE(after.at("model/1.weight"), before.at("model/1.weight"));
    for (const auto& [name, bytes] : before) {
      SCOPED_TRACE(name);
      const bool is_weight = name.starts_with("model/0."), is_statistic = name.starts_with("buffer/0.1.");
      if (is_weight || is_statistic) {
        EXPECT_EQ(after.at(name) == bytes, is_weight || frozen != kNone);
      }
    }
  }
}

TEST_F(RunningStatistics, OfLocalSgdAreAveraged) {
  const std::vector<std::string> local{"num_processes=2", "train.local_sgd={every: 2 steps}"};
  const State state = final_state({.store = "local.db", .overrides = local});
  EXPECT_EQ(numbers_of<int64_t>(state.at("buffer/1.num_batches_tracked")), std::vector<int64_t>{8});
}

}  // namespace
}  // namespace runner::train
