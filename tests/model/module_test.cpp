// Individual modules: parameter names, forward and backward computation.
#include "runner/model/module.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/golden/golden.h"
#include "tests/model/recording.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using Doubles = std::vector<double>;

void expect_near(const Doubles& got, const Doubles& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

template <class... Members>
ModulePtr sequence(Members... members) {
  std::vector<ModulePtr> list;
  (list.push_back(std::move(members)), ...);
  return sequential(std::move(list));
}

TEST(Linear, MultipliesByTheTransposedWeight) {
  const ModulePtr module = linear(3, 2);
  Recording recording(*module);
  recording.set_parameter({1, 2, 3, -1, 0, 1});
  recording.set_parameter({0.5, -0.5});
  const Value x = recording.input({DType::kF32, Shape{2, 3}}, {1, 0, 2, 0, 1, 1});
  EXPECT_EQ(recording.run({recording.forward(x)})[0], (Doubles{7.5, 0.5, 5.5, 0.5}));
}

TEST(Linear, HasGradientsOfWeightAndBias) {
  const ModulePtr module = linear(3, 2);
  Recording recording(*module);
  recording.set_parameter(counting(6));
  recording.set_parameter({0, 0});
  const Value x = recording.input({DType::kF32, Shape{2, 3}}, {1, 2, 3, 4, 5, 6});
  const Value seed = recording.input({DType::kF32, Shape{2, 2}}, {1, 10, 2, 20});
  const auto grads = recording.run(recording.gradients(recording.forward(x), seed));
  EXPECT_EQ(grads[0], (Doubles{9, 12, 15, 90, 120, 150}));  // seedᵀ x
  EXPECT_EQ(grads[1], (Doubles{3, 30}));
}

TEST(Linear, NeedsNoBias) {
  const ModulePtr module = linear(2, 1, false);
  Recording recording(*module);
  ASSERT_EQ(recording.parameters().parameters().size(), 1u);
  recording.set_parameter({3, 4});
  const Value x = recording.input({DType::kF32, Shape{1, 2}}, {1, 2});
  EXPECT_EQ(recording.run({recording.forward(x)})[0], Doubles{11});
}

// PyTorch's values for F.embedding, with rows that are looked up repeatedly and one that is never looked up.
TEST(Embedding, ForwardAndGradientMatchPyTorch) {
  const testing::Golden item = testing::Golden::load("ops.json").find("embedding/f32");
  const testing::GoldenTensor table = item["inputs"]["table"].tensor(), ids = item["inputs"]["ids"].tensor();
  const ModulePtr module = embedding(table.shape[0], table.shape[1]);
  Recording recording(*module);
  ASSERT_EQ(recording.parameters().parameters().size(), 1u);
  EXPECT_EQ(recording.parameters()[0].name, "weight");
  EXPECT_EQ(recording.parameters()[0].shape, table.shape);
  recording.set_parameter(table.values);
  const Value y = recording.forward(recording.input({DType::kI64, ids.shape}, ids.as<double>()));
  const testing::GoldenTensor output = item["output"].tensor();
  EXPECT_EQ(y.shape(), output.shape);
  const Value seed = recording.input({DType::kF32, output.shape}, item["grad_output"].tensor().values);
  const auto results = recording.run({y, recording.gradients(y, seed)[0]});
  EXPECT_EQ(std::vector<float>(results[0].begin(), results[0].end()), output.as<float>());
  expect_near(results[1], item["grads"]["table"].tensor().values, 1e-6);
}

TEST(LayerNorm, NormalisesTheLastAxis) {
  const ModulePtr module = layer_norm(4);
  Recording recording(*module);
  recording.set_parameter({1, 2, 3, 4});
  recording.set_parameter({0, 0, 0, 10});
  const Value x = recording.input({DType::kF32, Shape{2, 4}}, {1, 2, 3, 4, 5, 5, 5, 5});
  const double unit = 1 / std::sqrt(1.25 + 1e-5);  // the standard deviation of 1, 2, 3, 4 is √1.25
  expect_near(recording.run({recording.forward(x)})[0],
              {-1.5 * unit, -0.5 * unit * 2, 0.5 * unit * 3, 1.5 * unit * 4 + 10, 0, 0, 0, 10}, 1e-5);
}

TEST(Activation, MatchesItsFormula) {
  using schema::Activation;
  const Doubles inputs = {-2, -0.5, 0, 0.25, 3};
  const double root = std::sqrt(2 / std::numbers::pi);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<std::pair<Activation, std::function<double(double)>>> kinds = {
      {Activation::kRelu, [](double x) { return std::max(x, 0.0); }},
      {Activation::kGelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }},
      {Activation::kGeluTanh, [&](double x) { return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x))); }},
      {Activation::kSilu, [&](double x) { return x * sigmoid(x); }},
      {Activation::kTanh, [](double x) { return std::tanh(x); }},
      {Activation::kSigmoid, sigmoid},
      {Activation::kIdentity, [](double x) { return x; }}};
  for (const auto& [kind, formula] : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const ModulePtr module = activation(kind);
    Recording recording(*module);
    EXPECT_TRUE(recording.parameters().parameters().empty());
    const Value x = recording.input({DType::kF32, Shape{5}}, inputs);
    Doubles want;
    for (const double input : inputs) want.push_back(formula(input));
    expect_near(recording.run({ops::add(recording.forward(x), 0.0)})[0], want, 1e-6);
  }
}

TEST(Dropout, ScalesKeptElementsInTrainingOnly) {
  constexpr int64_t kRows = 200, kWidth = 50;
  const ModulePtr module = dropout(0.25);
  Recording recording(*module);
  const Value x = recording.input({DType::kF32, Shape{kRows, kWidth}}, Doubles(kRows * kWidth, 3.0));
  const auto results =
      recording.run({recording.forward(x, true, counting(kRows)), ops::add(recording.forward(x, false), 0.0)});
  int64_t zeros = 0;
  for (const double value : results[0]) {
    if (value == 0) {
      ++zeros;
    } else {
      EXPECT_FLOAT_EQ(static_cast<float>(value), 4.0f);  // 3 / (1 − 0.25)
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros) / (kRows * kWidth), 0.25, 5 * std::sqrt(0.25 * 0.75 / (kRows * kWidth)));
  EXPECT_EQ(results[1], Doubles(kRows * kWidth, 3.0));
}

TEST(Dropout, DependsOnTheSampleAndTheLayer) {
  constexpr int64_t kWidth = 64;
  const ModulePtr one = dropout(0.5), two = sequence(dropout(0.5), dropout(0.5));
  const auto run = [&](Module& module, const Doubles& ids) {
    Recording recording(module);
    const int64_t rows = std::ssize(ids);
    const Value x =
        recording.input({DType::kF32, Shape{rows, kWidth}}, Doubles(static_cast<size_t>(rows * kWidth), 1.0));
    return recording.run({recording.forward(x, true, ids)})[0];
  };
  const auto row = [](const Doubles& values, int64_t i) {
    return Doubles(values.begin() + i * kWidth, values.begin() + (i + 1) * kWidth);
  };
  const Doubles batch = run(*one, {3, 8, 5}), alone = run(*one, {8});
  EXPECT_EQ(row(batch, 1), alone);
  EXPECT_NE(row(batch, 0), row(batch, 1));
  // Two layers zero more elements than one, because their masks differ.
  const Doubles both = run(*two, {8});
  EXPECT_GT(std::count(both.begin(), both.end(), 0.0), std::count(alone.begin(), alone.end(), 0.0));
}

TEST(Dropout, OfZeroDoesNothing) {
  const ModulePtr module = dropout(0);
  Recording recording(*module);
  const Value x = recording.input({DType::kF32, Shape{2}}, {1, 2});
  EXPECT_EQ(recording.forward(x, true, {0}).id, x.id);
}

TEST(Flatten, KeepsTheFirstAxis) {
  const ModulePtr module = flatten();
  Recording recording(*module);
  EXPECT_EQ(recording.forward(recording.input({DType::kF32, Shape{2, 3, 4}}, counting(24))).shape(), (Shape{2, 12}));
  EXPECT_EQ(recording.forward(recording.input({DType::kF32, Shape{5}}, counting(5))).shape(), (Shape{5, 1}));
  EXPECT_EQ(recording.forward(recording.input({DType::kF32, Shape{0, 3}}, {})).shape(), (Shape{0, 0}));
}

TEST(Sequential, NumbersNestedMembers) {
  const ModulePtr module = sequence(linear(2, 2), activation(schema::Activation::kRelu),
                                    sequence(layer_norm(2), dropout(0.1), linear(2, 1, false)), embedding(3, 2));
  ParameterSet set;
  module->declare(set, "blocks.");
  std::vector<std::string> names;
  for (const Parameter& parameter : set.parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.weight", "blocks.0.bias", "blocks.2.0.weight", "blocks.2.0.bias",
                                             "blocks.2.2.weight", "blocks.3.weight"}));
}

TEST(Sequential, AppliesItsMembersInOrder) {
  const ModulePtr module = sequence(linear(1, 1), activation(schema::Activation::kRelu), linear(1, 1));
  Recording recording(*module);
  for (const double value : {2.0, -3.0, 5.0, 1.0}) recording.set_parameter({value});
  const Value x = recording.input({DType::kF32, Shape{2, 1}}, {1, 4});
  EXPECT_EQ(recording.run({recording.forward(x)})[0], (Doubles{1, 26}));  // 5 relu(2 x − 3) + 1
}

// Returns the error of forward() with an input of this type and shape. All parameters are zero.
std::string error_of(const ModulePtr& module, DType dtype, const Shape& shape) {
  Recording recording(*module);
  for (const Parameter& parameter : recording.parameters().parameters())
    recording.set_parameter(Doubles(static_cast<size_t>(parameter.elements())));
  const Value x = recording.input({dtype, shape}, Doubles(static_cast<size_t>(shape.elements())));
  try {
    recording.forward(x);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Module, ErrorNamesTheModule) {
  const auto relu = [] { return activation(schema::Activation::kRelu); };
  EXPECT_EQ(error_of(sequence(linear(4, 8), relu(), linear(9, 2)), DType::kF32, {3, 4}),
            "in 2 (nn.Linear) of the model: matmul: expected equal inner sizes, got (3, 8) f32 × (2, 9) f32ᵀ");
  EXPECT_EQ(error_of(sequence(flatten(), sequence(linear(4, 8), layer_norm(7))), DType::kF32, {3, 4}),
            "in 1.1 (nn.LayerNorm) of the model: layer_norm: expected gamma (8) f32, got (7) f32");
  EXPECT_EQ(error_of(linear(5, 2), DType::kF32, {3, 4}),
            "in the model (nn.Linear): matmul: expected equal inner sizes, got (3, 4) f32 × (2, 5) f32ᵀ");
  EXPECT_EQ(error_of(sequence(linear(4, 2), flatten()), DType::kF32, {3, 4}), "no error");
  EXPECT_EQ(error_of(sequence(relu()), DType::kI64, {3}),
            "in 0 (nn.ReLU) of the model: relu: expected a float tensor, got (3) i64");
  EXPECT_EQ(error_of(embedding(3, 2), DType::kF32, {3}),
            "in the model (nn.Embedding): embedding: expected i64 indices, got (3) f32");
  EXPECT_EQ(error_of(flatten(), DType::kF32, {}),
            "in the model (nn.Flatten): flatten: expected at least one axis, got () f32");
  // A module used at two places has the name of the first one.
  const ModulePtr twice = linear(4, 4);
  EXPECT_EQ(error_of(sequence(twice, linear(4, 3), twice), DType::kF32, {3, 4}),
            "in 0 (nn.Linear) of the model: matmul: expected equal inner sizes, got (3, 3) f32 × (4, 4) f32ᵀ");
}

TEST(Module, OutsideTheModelHasNoParameters) {
  backends::Program program;
  const Value x{&program, program.input(backends::InputKind::kBatch, "x", {DType::kI64, Shape{3}})};
  ForwardContext context{
      .program = program, .parameters = {}, .autocast = {}, .training = true, .dropout_key = {}, .sample_ids = {}};
  try {
    embedding(3, 2)->forward(context, x);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "in nn.Embedding: the module is not part of the model, so its parameters are not trained; return it from "
              "the hook entry model");
  }
}

// Matrix products run in bf16, norms in f32, and parameters are f32.
TEST(Autocast, FollowsPyTorchsOpLists) {
  const ModulePtr module = sequence(linear(2, 2), layer_norm(2));
  Recording recording(*module, {.dtype = DType::kBf16});
  for (const Doubles& values : {Doubles{1, 0, 0, 1}, Doubles{0, 0}, Doubles{1, 1}, Doubles{0, 0}})
    recording.set_parameter(values);
  const Value x = recording.input({DType::kF32, Shape{1, 2}}, {1.001, -1});
  EXPECT_EQ(recording.forward(x).dtype(), DType::kF32);

  const ModulePtr product = linear(2, 1);
  Recording lowered(*product, {.dtype = DType::kBf16});
  lowered.set_parameter({1, 1});
  lowered.set_parameter({0});
  const Value y = lowered.forward(lowered.input({DType::kF32, Shape{1, 2}}, {1.001, 0}));
  EXPECT_EQ(y.dtype(), DType::kBf16);
  EXPECT_EQ(lowered.run({y})[0], Doubles{1});  // 1.001 rounds to 1 in bf16
}

// Adds the input "mask" of the batch to its argument.
class AddsMask : public Module {
 private:
  Value record(ForwardContext& context, Value x) const override { return ops::add(x, context.input("mask")); }
};

TEST(Module, ReadsFurtherInputsByName) {
  backends::Program program;
  const auto input = [&](const char* name) {
    return Value{&program, program.input(backends::InputKind::kBatch, name, {DType::kF32, Shape{2}})};
  };
  const ModelInput inputs[] = {{"features", input("features")}, {"mask", input("mask")}};
  ForwardContext context{.program = program, .inputs = inputs};
  const Value sum = AddsMask().forward(context, inputs[0].value);
  EXPECT_EQ(program.operands(sum.id)[1], inputs[1].value.id);

  context.inputs = std::span(inputs).first(1);
  try {
    AddsMask().forward(context, inputs[0].value);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the model needs an input mask, but a batch has features");
  }
}

}  // namespace
}  // namespace runner::nn
