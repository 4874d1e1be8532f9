// Batch and group norm against PyTorch, and rules that PyTorch does not have.
#include "runner/model/norms.h"

#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/golden/golden.h"
#include "tests/model/recording.h"
#include "tests/support/thrown_text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using testing::Golden;
using testing::GoldenTensor;
using Doubles = std::vector<double>;

void expect_all_near(const Doubles& got, const Doubles& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

ModulePtr norm_of(const Golden& item) {
  const Golden attrs = item["attrs"];
  const bool affine = !attrs.has("affine");
  const double eps = attrs.has("eps") ? attrs["eps"].number() : kNormEpsilon;
  if (attrs.has("groups"))
    return group_norm(attrs["groups"].integer(), item["batches"].items()[0].tensor().shape[1], eps, affine);
  BatchNormOptions options{.eps = eps, .affine = affine};
  if (item.name() == "plain_mean")
    options.momentum = std::nullopt;
  else if (attrs.has("momentum"))
    options.momentum = attrs["momentum"].number();
  return batch_norm(item["batches"].items()[0].tensor().shape[1], static_cast<int>(attrs["dimensions"].integer()),
                    options);
}

constexpr const char* kBuffers[] = {"running_mean", "running_var", "num_batches_tracked"};

TEST(Norms, MatchPyTorch) {
  for (const Golden& item : Golden::load("batch_norm.json").cases()) {
    if (item.name() == "training") continue;
    SCOPED_TRACE(item.name());
    const ModulePtr module = norm_of(item);
    Recording recording(*module);
    const bool is_batch_norm = !recording.parameters().model_buffers().empty();
    for (const char* const name : {"weight", "bias"})
      if (item["parameters"].has(name)) recording.set_parameter(item["parameters"][name].tensor().values);
    std::vector<Value> values;
    std::vector<Doubles> expected;
    Value x, y;
    const std::vector<Golden> batches = item["batches"].items();
    ASSERT_FALSE(batches.empty());
    for (size_t i = 0; i < batches.size(); ++i) {
      const GoldenTensor batch = batches[i].tensor();
      x = recording.input({DType::kF32, batch.shape}, batch.values);
      y = recording.forward(x, /*training=*/true, Doubles(static_cast<size_t>(batch.shape[0])));
      EXPECT_EQ(y.shape(), batch.shape);
      values.push_back(y);
      expected.push_back(item["outputs"].items()[i].tensor().values);
      for (size_t id = 0; is_batch_norm && id < std::size(kBuffers); ++id) {
        values.push_back(recording.buffers()[id]);
        expected.push_back(item["running"].items()[i][kBuffers[id]].tensor().as<double>());
      }
    }
    std::vector<Value> wrt{x};
    wrt.insert(wrt.end(), recording.parameter_values().begin(), recording.parameter_values().end());
    const Value seed = recording.input(y.type(), item["grad_output"].tensor().values);
    for (const Value grad : recording.gradients(y, seed, wrt)) values.push_back(grad);
    for (const char* const name : {"x", "weight", "bias"})
      if (item["grads"].has(name)) expected.push_back(item["grads"][name].tensor().values);
    values.push_back(recording.forward(x));
    expected.push_back(item["evaluated"].tensor().values);
    const std::vector<Doubles> got = recording.run(values);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      expect_all_near(got[i], expected[i], 2e-5);
    }
  }
}

TEST(BatchNorm, HasPyTorchsNamesAndRoles) {
  const ModulePtr module = batch_norm(4, 1);
  const Recording recording(*module);
  std::vector<std::string> names;
  for (const Parameter& parameter : recording.parameters().parameters()) names.push_back(parameter.name);
  for (const ModelBuffer& buffer : recording.parameters().model_buffers())
    if (!buffer.is_internal) names.push_back(buffer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(recording.parameters().elements(), 8) << "buffers are no parameters";
  EXPECT_EQ(recording.parameters().buffer_elements(), 9);
  EXPECT_EQ(recording.parameters()[0].role, ParameterRole::kNormWeight);
  EXPECT_EQ(recording.parameters()[1].role, ParameterRole::kNormBias);
}

// The samples (1), (3), (5) and (9) with a padding sample between them.
TEST(BatchNorm, LeavesPaddingOut) {
  const ModulePtr module = batch_norm(1, 1, {.affine = false});
  Recording recording(*module);
  recording.set_padding({1, 1, 0, 1, 1});
  const Value x = recording.input({DType::kF32, Shape{5, 1}}, {1, 3, 100, 5, 9});
  const Value y = recording.forward(x, true, Doubles(5));
  const auto got = recording.run({y, recording.buffers()[0], recording.buffers()[1]});
  const double deviation = std::sqrt(8.75 + kNormEpsilon);
  expect_all_near({got[0][0], got[0][1], got[0][3], got[0][4]},
                  {-3.5 / deviation, -1.5 / deviation, 0.5 / deviation, 4.5 / deviation}, 1e-6);
  expect_all_near(got[1], {0.45}, 1e-6);
  expect_all_near(got[2], {0.9 + 0.1 * 35 / 3}, 1e-6);
}

TEST(BatchNorm, OfNothingButPaddingMovesNothing) {
  const ModulePtr module = batch_norm(1, 1, {.affine = false});
  Recording recording(*module);
  recording.set_padding({0, 0});
  const Value y = recording.forward(recording.input({DType::kF32, Shape{2, 1}}, {1, 3}), true, Doubles(2));
  const std::vector<Value> after = recording.buffers();
  const auto got = recording.run({y, after[0], after[1], after[2], after[3]});
  for (const double value : got[0]) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(got[1], Doubles{0});
  EXPECT_EQ(got[2], Doubles{1});
  EXPECT_EQ(got[3], Doubles{0});
  EXPECT_EQ(got[4], Doubles{0}) << "padding is finite";
}

TEST(BatchNorm, LeavesOutAndCountsBatchesThatAreNotFinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {inf, -inf, nan, 3e38}) {
    SCOPED_TRACE(value);
    const ModulePtr module = batch_norm(2, 1, {.affine = false});
    Recording recording(*module);
    recording.forward(recording.input({DType::kF32, Shape{2, 2}}, {1, 2, 3, 4}), true, Doubles(2));
    recording.forward(recording.input({DType::kF32, Shape{2, 2}}, {1, 2, 3, value}), true, Doubles(2));
    const std::vector<Value> after = recording.buffers();
    const auto got = recording.run({after[0], after[1], after[2], after[3]});
    expect_all_near(got[0], {0.2, 0.3}, 1e-6);
    expect_all_near(got[1], {1.1, 1.1}, 1e-6);
    EXPECT_EQ(got[2], Doubles{1}) << kBatchesTracked;
    EXPECT_EQ(got[3], Doubles{1}) << kBatchesNotFinite;
  }
}

// The result has the dtype of x, but statistics of bf16 numbers around 1000 need f32.
TEST(BatchNorm, ComputesInF32) {
  const ModulePtr module = batch_norm(1, 1, {.affine = false});
  Recording recording(*module, {DType::kBf16});
  const Value x = recording.input({DType::kBf16, Shape{4, 1}}, {1000, 1004, 1008, 1012});
  const Value y = recording.forward(x, true, Doubles(4));
  EXPECT_EQ(y.dtype(), DType::kBf16);
  const auto got = recording.run({y, recording.buffers()[0]});
  expect_all_near(got[0], {-1.3416, -0.4472, 0.4472, 1.3416}, 0.005);
  expect_all_near(got[1], {100.6}, 1e-4);
}

TEST(BatchNorm, FrozenNormalisesByTheRunningStatistics) {
  for (const schema::FrozenNorm frozen : {schema::FrozenNorm::kStatistics, schema::FrozenNorm::kAll}) {
    const ModulePtr module = batch_norm(1, 1, {.frozen = frozen});
    Recording recording(*module);
    EXPECT_EQ(recording.parameters()[0].fixed, frozen == schema::FrozenNorm::kAll);
    EXPECT_EQ(recording.parameters()[1].fixed, frozen == schema::FrozenNorm::kAll);
    recording.set_parameter({2});
    recording.set_parameter({1});
    const std::vector<Value> before = recording.buffers();
    const Value x = recording.input({DType::kF32, Shape{1, 1}}, {3});  // a single value is enough
    const Value y = recording.forward(x, true, Doubles(1));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(recording.buffers()[i].id, before[i].id);
    expect_all_near(recording.run({y})[0], {7}, 1e-4);
  }
}

// x: (B, C, S). A batch norm has one group for each channel and takes all samples of it; `groups`: those of a group
// norm, or 0 for a batch norm.
struct NormSizes {
  size_t batch, channels, places, groups;

  size_t elements() const { return batch * channels * places; }
  // Which elements are normalised together.
  size_t set_of(size_t element) const {
    const size_t sample = element / (channels * places), channel = channel_of(element);
    return groups == 0 ? channel : sample * groups + channel / (channels / groups);
  }
  size_t channel_of(size_t element) const { return element / places % channels; }
  size_t sets() const { return groups == 0 ? channels : batch * groups; }
};

// x, weight and bias, one after the other.
using NormInputs = std::array<Doubles, 3>;

// Σ seed · y by the definition: y = (x − mean) / √(variance + eps) · weight + bias, with the biased variance.
double weighted_sum(const NormSizes& sizes, const NormInputs& inputs, const Doubles& seed) {
  const auto& [x, weight, bias] = inputs;
  Doubles count(sizes.sets()), mean(sizes.sets()), variance(sizes.sets());
  for (size_t i = 0; i < x.size(); ++i) ++count[sizes.set_of(i)];
  for (size_t i = 0; i < x.size(); ++i) mean[sizes.set_of(i)] += x[i] / count[sizes.set_of(i)];
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t set = sizes.set_of(i);
    variance[set] += (x[i] - mean[set]) * (x[i] - mean[set]) / count[set];
  }
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t set = sizes.set_of(i), channel = sizes.channel_of(i);
    sum += seed[i] * ((x[i] - mean[set]) / std::sqrt(variance[set] + kNormEpsilon) * weight[channel] + bias[channel]);
  }
  return sum;
}

Doubles finite_differences(const NormSizes& sizes, NormInputs inputs, size_t input, const Doubles& seed) {
  constexpr double kStep = 1e-5;
  Doubles gradient;
  for (double& element : inputs[input]) {
    const double before = element;
    element = before + kStep;
    const double above = weighted_sum(sizes, inputs, seed);
    element = before - kStep;
    gradient.push_back((above - weighted_sum(sizes, inputs, seed)) / (2 * kStep));
    element = before;
  }
  return gradient;
}

// Different numbers of the order of 1.
Doubles waves(size_t count, double frequency, double centre = 0) {
  Doubles numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = centre + std::sin(frequency * static_cast<double>(i + 1));
  return numbers;
}

TEST(Norms, HaveTheGradientsOfFiniteDifferences) {
  for (const NormSizes& sizes : {NormSizes{5, 3, 1, 0}, NormSizes{3, 4, 6, 0}, NormSizes{2, 6, 5, 3},
                                 NormSizes{2, 4, 3, 1}, NormSizes{1, 4, 3, 4}}) {
    SCOPED_TRACE(fmt::format("({}, {}, {}) in {} groups", sizes.batch, sizes.channels, sizes.places, sizes.groups));
    const auto channels = static_cast<int64_t>(sizes.channels);
    const ModulePtr module =
        sizes.groups == 0 ? batch_norm(channels, 1) : group_norm(static_cast<int64_t>(sizes.groups), channels);
    Recording recording(*module);
    const NormInputs inputs{waves(sizes.elements(), 1.7, 0.3), waves(sizes.channels, 0.9, 1.5),
                            waves(sizes.channels, 2.3)};
    const Doubles seed = waves(sizes.elements(), 0.7);
    recording.set_parameter(inputs[1]);
    recording.set_parameter(inputs[2]);
    const Shape shape{static_cast<int64_t>(sizes.batch), channels, static_cast<int64_t>(sizes.places)};
    const Value x = recording.input({DType::kF32, shape}, inputs[0]);
    const Value y = recording.forward(x, /*training=*/true, Doubles(sizes.batch));
    const std::vector<Value> gradients =
        recording.gradients(y, recording.input({DType::kF32, shape}, seed),
                            {x, recording.parameter_values()[0], recording.parameter_values()[1]});
    const auto got = recording.run(gradients);
    for (size_t i = 0; i < inputs.size(); ++i) {
      constexpr const char* kNames[] = {"x", "weight", "bias"};
      SCOPED_TRACE(kNames[i]);
      expect_all_near(got[i], finite_differences(sizes, inputs, i, seed), 1e-4);
    }
  }
}

// A block with a batch norm, whose inside the backward pass may compute again.
class NormedBlock : public Group {
 public:
  NormedBlock()
      : inside_(member("inside", sequential({linear(3, 4), batch_norm(4, 1), activation(schema::Activation::kTanh),
                                             group_norm(2, 4), linear(4, 3)}))) {}
  Value record(ForwardContext& context, Value x) const override {
    return forward_block(context, *inside_, forward_block(context, *inside_, x));
  }

 private:
  const ModulePtr inside_;
};

// Each block is used twice, so its statistics move twice, and not again when its inside is computed again.
TEST(Norms, InRecomputedBlocksHaveTheSameBits) {
  const auto results_of = [](bool recomputes) {
    NormedBlock module;
    Recording recording(module);
    for (const Parameter& parameter : recording.parameters().parameters())
      recording.set_parameter(waves(static_cast<size_t>(parameter.elements()), 1.3, 0.2));
    if (recomputes) recording.recompute_blocks();
    const Value x = recording.input({DType::kF32, Shape{6, 3}}, waves(18, 1.1));
    const Value y = recording.forward(x, /*training=*/true, Doubles(6));
    std::vector<Value> values{y};
    values.insert(values.end(), recording.buffers().begin(), recording.buffers().end());
    const std::vector<Value> gradients =
        recording.gradients(y, recording.input({DType::kF32, Shape{6, 3}}, waves(18, 0.4)));
    values.insert(values.end(), gradients.begin(), gradients.end());
    return recording.run(values);
  };
  const auto kept = results_of(false);
  EXPECT_EQ(results_of(true), kept);
  EXPECT_EQ(kept[3], Doubles{2}) << kBatchesTracked;
}

TEST(Norms, PrintTheirOptions) {
  EXPECT_EQ(batch_norm(8, 2)->text(), "nn.BatchNorm2d(8)");
  EXPECT_EQ(batch_norm(8, 1, {.eps = 0.001, .momentum = 0.01})->text(),
            "nn.BatchNorm1d(8, {eps = 0.001, momentum = 0.01})");
  EXPECT_EQ(batch_norm(8, 2, {.momentum = std::nullopt, .affine = false, .sync = true})->text(),
            "nn.BatchNorm2d(8, {momentum = false, affine = false, sync = true})");
  EXPECT_EQ(batch_norm(8, 2, {.frozen = schema::FrozenNorm::kStatistics})->text(),
            "nn.BatchNorm2d(8, {frozen = \"statistics\"})");
  EXPECT_EQ(group_norm(2, 8)->text(), "nn.GroupNorm(2, 8)");
  EXPECT_EQ(group_norm(2, 8, 1e-6, false)->text(), "nn.GroupNorm(2, 8, {eps = 1e-06, affine = false})");
}

std::string norm_error(const ModulePtr& module, const Shape& shape, const Doubles& mask = {}) {
  Recording recording(*module);
  if (!mask.empty()) recording.set_padding(mask);
  const auto count = static_cast<size_t>(shape.elements());
  const Value x = recording.input({DType::kF32, shape}, Doubles(count));
  return support::thrown_text([&] { recording.forward(x, true, Doubles(static_cast<size_t>(shape[0]))); });
}

TEST(BatchNorm, NeedsTwoValuesPerChannel) {
  const auto flat = [] { return batch_norm(4, 1, {.affine = false}); };
  const auto images = [] { return batch_norm(4, 2, {.affine = false}); };
  EXPECT_EQ(norm_error(flat(), Shape{1, 4}),
            "in the model (nn.BatchNorm1d): expected more than 1 value per channel in training, got (1, 4) f32: the "
            "variance of one value is unknown; set data.drop_last: true, or another data.batch_size");
  EXPECT_EQ(norm_error(flat(), Shape{2, 4}, {1, 0}),
            "in the model (nn.BatchNorm1d): expected more than 1 value per channel in training, got (2, 4) f32, where "
            "all other samples are padding: the variance of one value is unknown; set data.drop_last: true, or another "
            "data.batch_size");
  EXPECT_EQ(norm_error(images(), Shape{1, 4, 1, 1}),
            "in the model (nn.BatchNorm2d): expected more than 1 value per channel in training, got (1, 4, 1, 1) f32: "
            "the variance of one value is unknown; set data.drop_last: true, or another data.batch_size");
  EXPECT_EQ(norm_error(images(), Shape{1, 4, 2, 2}), "");
  EXPECT_EQ(norm_error(flat(), Shape{1, 4, 2}), "");
}

TEST(BatchNorm, ChecksItsInput) {
  const ModulePtr flat = batch_norm(4, 1, {.affine = false}), images = batch_norm(4, 2, {.affine = false});
  EXPECT_EQ(norm_error(flat, Shape{2, 3}),
            "in the model (nn.BatchNorm1d): expected a tensor of floats (B, 4) or (B, 4, L), got (2, 3) f32");
  EXPECT_EQ(norm_error(images, Shape{2, 4}),
            "in the model (nn.BatchNorm2d): expected a tensor of floats (B, 4, H, W), got (2, 4) f32");
}

TEST(GroupNorm, NeedsGroupsOfEqualSize) {
  EXPECT_EQ(support::thrown_text([] { group_norm(4, 6); }),
            "expected a number of groups that divides the 6 channels, got 4");
  EXPECT_EQ(norm_error(group_norm(2, 6, kNormEpsilon, false), Shape{2, 3}),
            "in the model (nn.GroupNorm): expected a tensor (B, 6, …), got (2, 3) f32");
}

}  // namespace
}  // namespace runner::nn
