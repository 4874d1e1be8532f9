// nn.MultiheadAttention and nn.TransformerEncoderLayer against PyTorch's modules.
#include "runner/model/transformer.h"

#include <limits>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "tests/golden/golden.h"
#include "tests/model/recording.h"

namespace runner::nn {
namespace {

using backends::Shape;
using testing::Golden;
using testing::GoldenTensor;

// Passes its arguments to a module when it is recorded.
class Called : public Module {
 public:
  explicit Called(ModulePtr module) : module_(std::move(module)) {}

  AttentionCall call;

 private:
  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    module_->declare(parameters, prefix);
  }
  Value record(ForwardContext& context, Value x) const override {
    return dynamic_cast<const AttentionModule&>(*module_).attend(context, x, call);
  }

  const ModulePtr module_;
};

ModulePtr module_of(const Golden& attrs) {
  if (attrs["module"].text() == "MultiheadAttention") return multihead_attention(8, 2, 0, attrs["bias"].flag());
  return transformer_encoder_layer(
      {.width = 8,
       .heads = 2,
       .feedforward = 16,
       .dropout = 0,
       .activation = attrs["activation"].text() == "gelu" ? schema::Activation::kGelu : schema::Activation::kRelu,
       .norm_first = attrs["norm_first"].flag()});
}

TEST(TransformerModules, MatchPyTorch) {
  for (const Golden& item : Golden::load("transformer_modules.json").cases()) {
    SCOPED_TRACE(item.name());
    Called called(module_of(item["attrs"]));
    Recording recording(called);
    const std::span<const Parameter> parameters = recording.parameters().parameters();
    ASSERT_EQ(parameters.size(), item["parameters"].keys().size());
    for (const Parameter& parameter : parameters) {
      const GoldenTensor values = item["parameters"][parameter.name].tensor();
      ASSERT_EQ(parameter.shape, values.shape) << parameter.name;
      recording.set_parameter(values.as<double>());
    }
    const Golden inputs = item["inputs"];
    const auto input = [&](const char* name) {
      const GoldenTensor values = inputs[name].tensor();
      return recording.input({values.dtype, values.shape}, values.as<double>());
    };
    const Value x = input("x");
    called.call.causal = item["attrs"].has("causal");
    if (inputs.has("key")) called.call.key = input("key"), called.call.value = input("value");
    if (inputs.has("key_padding_mask")) {
      std::vector<double> hidden = inputs["key_padding_mask"].tensor().as<double>();
      for (double& value : hidden) value = value != 0 ? -std::numeric_limits<double>::infinity() : 0;
      called.call.mask = recording.input({backends::DType::kF32, Shape{3, 1, 1, 5}}, hidden);
    }
    const Value y = recording.forward(x);
    std::vector<Value> values{y};
    for (const Value grad :
         recording.gradients(y, recording.input(y.type(), item["grad_output"].tensor().as<double>())))
      values.push_back(grad);
    const std::vector<std::vector<double>> got = recording.run(values);
    const auto expect_near = [](const std::vector<double>& actual, const std::vector<double>& want, double tolerance) {
      ASSERT_EQ(actual.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(actual[i], want[i], tolerance) << i;
    };
    expect_near(got[0], item["output"].tensor().as<double>(), 1e-5);
    for (size_t i = 0; i < parameters.size(); ++i) {
      SCOPED_TRACE(parameters[i].name);
      expect_near(got[i + 1], item["grads"][parameters[i].name].tensor().as<double>(), 1e-4);
    }
  }
}

TEST(TransformerModules, HeadsDivideTheWidth) {
  try {
    multihead_attention(8, 3, 0, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "nn.MultiheadAttention: 3 heads do not divide the width 8");
  }
}

}  // namespace
}  // namespace runner::nn
