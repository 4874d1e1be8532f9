// Compares convolution, pooling and interpolation in hooks with PyTorch (tests/golden/convolution_modules.json).
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "backends/ir/autograd.h"
#include "runner/lua/modules.h"
#include "tests/golden/golden.h"
#include "tests/lua/lua_step.h"

namespace runner::lua {
namespace {

using backends::DType;
using backends::Shape;
using testing::Golden;

HostTensor host(const Golden& tensor) {
  const testing::GoldenTensor golden = tensor.tensor();
  const std::vector<double> numbers = golden.as<double>();
  return HostTensor({golden.dtype, golden.shape}, std::span<const double>(numbers));
}

void expect_near(const HostTensor& got, const Golden& wanted) {
  const testing::GoldenTensor want = wanted.tensor();
  ASSERT_EQ(got.type, (backends::TensorType{want.dtype, want.shape}));
  for (int64_t i = 0; i < got.size(); ++i) {
    const double number = want.values[static_cast<size_t>(i)];
    EXPECT_NEAR(got[i], number, 2e-6 * std::max(1.0, std::fabs(number))) << i;
  }
}

TEST(LuaConvolution, FunctionsAndTheirGradientsAreThoseOfPyTorch) {
  for (const Golden& item : Golden::load("convolution_modules.json").cases()) {
    SCOPED_TRACE(item.name());
    LuaStep step;
    std::vector<Value> inputs;
    for (const std::string& name : item["inputs"].keys())
      inputs.push_back(step.input(name, host(item["inputs"][name])));
    const Value y = step.record(item["code"].text());
    expect_near(step.compute(y), item["output"]);
    const Value seed = step.input("seed", host(item["grad_output"]));
    const std::vector<Value> grads = backends::differentiate(y, seed, inputs);
    for (size_t i = 0; i < grads.size(); ++i) {
      const std::string name = item["inputs"].keys()[i];
      SCOPED_TRACE(name);
      expect_near(step.compute(grads[i]), item["grads"][name]);
    }
  }
}

// Each module, and the function with the same options; `m` is the module, whose parameters are ones.
constexpr std::pair<const char*, const char*> kModulesAndFunctions[] = {
    {"nn.Conv1d(2, 4, 3, {stride = 2, padding = 1, groups = 2})",
     "nn.conv1d(s, m.weight, {bias = m.bias, stride = 2, padding = 1, groups = 2})"},
    {"nn.Conv2d(2, 3, {2, 3}, {padding = 'same', dilation = {1, 2}, bias = false})",
     "nn.conv2d(x, m.weight, {padding = 'same', dilation = {1, 2}})"},
    {"nn.ConvTranspose1d(2, 4, 3, {stride = 2, groups = 2, output_padding = 1})",
     "nn.conv_transpose1d(s, m.weight, {bias = m.bias, stride = 2, groups = 2, output_padding = 1})"},
    {"nn.ConvTranspose2d(2, 3, {2, 3}, {dilation = 2, padding = 1})",
     "nn.conv_transpose2d(x, m.weight, {bias = m.bias, dilation = 2, padding = 1})"},
    {"nn.MaxPool1d(3, {stride = 2, ceil_mode = true})", "nn.max_pool1d(s, 3, {stride = 2, ceil_mode = true})"},
    {"nn.MaxPool2d({2, 3}, {padding = 1, dilation = {2, 1}})",
     "nn.max_pool2d(x, {2, 3}, {padding = 1, dilation = {2, 1}})"},
    {"nn.AvgPool1d(3, {stride = 2, padding = 1, ceil_mode = true})",
     "nn.avg_pool1d(s, 3, {stride = 2, padding = 1, ceil_mode = true})"},
    {"nn.AvgPool2d(2, {padding = 1, count_include_pad = false})",
     "nn.avg_pool2d(x, 2, {padding = 1, count_include_pad = false})"},
    {"nn.AdaptiveAvgPool1d(4)", "nn.adaptive_avg_pool1d(s, 4)"},
    {"nn.AdaptiveAvgPool2d{2, 3}", "nn.adaptive_avg_pool2d(x, {2, 3})"},
    {"nn.AdaptiveMaxPool1d(4)", "nn.adaptive_max_pool1d(s, 4)"},
    {"nn.AdaptiveMaxPool2d(2)", "nn.adaptive_max_pool2d(x, 2)"},
    {"nn.Upsample{scale_factor = 1.5, mode = 'linear'}", "nn.interpolate(s, {scale_factor = 1.5, mode = 'linear'})"},
    {"nn.Upsample{size = {3, 7}, mode = 'bilinear', align_corners = true}",
     "nn.interpolate(x, {size = {3, 7}, mode = 'bilinear', align_corners = true})"},
};

TEST(LuaConvolution, ModulesComputeWhatTheFunctionsCompute) {
  for (const auto& [module, function] : kModulesAndFunctions) {
    SCOPED_TRACE(module);
    LuaStep step;
    const auto wave = [](int64_t i) { return std::sin(static_cast<double>(7 * i)); };
    step.input("x", HostTensor({DType::kF32, Shape{2, 2, 5, 6}}, wave));
    step.input("s", HostTensor({DType::kF32, Shape{2, 2, 7}}, wave));
    step.run(module);
    lua_State* const state = step.runtime().state();
    step.declare(*module_value(state, -1, "the module"));
    lua_setglobal(state, "m");
    const std::string argument = std::string_view(function).find("(s, ") != std::string_view::npos ? "s" : "x";
    const HostTensor got = step.compute("m(" + argument + ")"), wanted = step.compute(function);
    EXPECT_EQ(got.type, wanted.type);
    EXPECT_EQ(got.values(), wanted.values());
  }
}

TEST(LuaConvolution, FollowsAutocast) {
  LuaStep step({DType::kBf16});
  step.input("x", HostTensor({DType::kF32, Shape{1, 1, 2, 2}}, [](int64_t) { return 1.001; }));
  step.input("w", HostTensor({DType::kF32, Shape{1, 1, 2, 2}}, [](int64_t) { return 1.001; }));
  step.input("b", HostTensor({DType::kF32, Shape{1}}, [](int64_t) { return 1.001; }));
  for (const char* function : {"conv2d", "conv_transpose2d"}) {
    const std::string call = fmt::format("nn.{}(x, w, {{bias = b}})", function);
    EXPECT_EQ(step.record(call).dtype(), DType::kBf16) << function;
    EXPECT_EQ(step.compute(call)[0], function == std::string("conv2d") ? 5 : 2) << function;
  }
  // Pooling and interpolation compute in the type of their operand.
  for (const char* type : {"f32", "bf16"})
    for (const char* function :
         {"max_pool2d(x, 2)", "avg_pool2d(x, 2)", "adaptive_avg_pool2d(x, 2)", "adaptive_max_pool2d(x, 1)",
          "interpolate(x, {size = 3})", "interpolate(x, {size = 3, mode = 'bilinear'})"}) {
      const std::string call = fmt::format("(function(x) return nn.{} end)(x:cast('{}'))", function, type);
      EXPECT_EQ(step.record(call).dtype(), type == std::string("f32") ? DType::kF32 : DType::kBf16) << call;
    }
}

// The result in f32, rounded once. PyTorch on a CPU also rounds the weights to bf16.
TEST(LuaConvolution, InterpolatesBf16InF32) {
  LuaStep step;
  step.input("x", HostTensor({DType::kBf16, Shape{1, 1, 3}}, std::vector<double>{1, 2.03125, 3.296875}));
  EXPECT_EQ(step.compute("nn.interpolate(x, {size = 7, mode = 'linear'})").values(),
            (std::vector<double>{1, 1.1484375, 1.5859375, 2.03125, 2.578125, 3.109375, 3.296875}));
}

}  // namespace
}  // namespace runner::lua
