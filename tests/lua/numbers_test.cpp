// Numbers next to tensors: which of them are inputs, how PyTorch would pass them, and that values do not depend on it.
#include "runner/lua/numbers.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/golden/golden.h"
#include "tests/lua/lua_step.h"

namespace runner::lua {
namespace {

using backends::DType;
using backends::InputKind;
using backends::ScalarUse;
using backends::Shape;
using backends::TracedScalar;

class Numbers : public ::testing::Test {
 protected:
  Numbers() {
    step_.input("x",
                HostTensor({DType::kF32, Shape{2, 3}}, [](int64_t i) { return 0.75 * static_cast<double>(i) - 2; }));
  }

  int inputs(InputKind kind) {
    int found = 0;
    for (const backends::Input& input : step_.program().inputs()) found += input.kind == kind;
    return found;
  }

  LuaStep step_;
};

TEST_F(Numbers, AreInputsExcept0And1) {
  step_.record("(x * 0.3 + 2.5):sum()");
  EXPECT_EQ(step_.host().scalars, (std::vector<double>{0.3, 2.5}));
  EXPECT_EQ(inputs(InputKind::kScalar), 2);
  step_.record("(x * 1 + 0) * -1");
  step_.record("x:clamp(-1, 1)");
  EXPECT_EQ(inputs(InputKind::kScalar), 2);
  EXPECT_EQ(step_.host().traced.size(), 2u + 3u + 2u) << "all numbers are traced";
}

TEST_F(Numbers, DifferentNumbersGiveTheSameProgram) {
  const auto recorded = [](double number) {
    LuaStep step;
    step.input("x", HostTensor({DType::kF32, Shape{4}}, [](int64_t) { return 1; }));
    step.record("(x * " + std::to_string(number) + "):sum()");
    return step.program().hash();
  };
  EXPECT_EQ(recorded(0.5), recorded(0.25));
  EXPECT_NE(recorded(0.5), recorded(1));
}

// Returns the tensor expression for a row of the golden file.
std::string tensor_of(const std::string& row) {
  for (const char* dtype : {"bf16", "f64", "i64"})
    if (row.ends_with(dtype)) return std::string("x:cast('") + dtype + "')";
  return "x";
}

std::string call_of(const std::string& row, const std::string& s) {
  const std::string name =
      row.substr(0, row.rfind("_bf16") == std::string::npos ? row.find("_f64") : row.rfind("_bf16"));
  const std::string function = name.substr(0, name.find("_i64")), x = tensor_of(row);
  const std::map<std::string, std::string> operators = {{"add", "x + s"},
                                                        {"sub", "x - s"},
                                                        {"sub_from", "s - x"},
                                                        {"mul", "s * x"},
                                                        {"div", "x / s"},
                                                        {"div_by", "s / x"},
                                                        {"pow", "x ^ s"},
                                                        {"pow_of", "s ^ x"},
                                                        {"clamp", "x:clamp(s, 9)"},
                                                        {"where", "nn.where(x:gt(9), x, s)"},
                                                        {"masked_fill", "x:masked_fill(x:gt(9), s)"}};
  std::string code = operators.contains(function) ? operators.at(function) : "x:" + function + "(s)";
  std::string call;
  for (size_t i = 0; i < code.size(); ++i) {
    const bool word = (i == 0 || !std::isalnum(code[i - 1])) && (i + 1 == code.size() || !std::isalnum(code[i + 1]));
    call += word && code[i] == 's' ? s : word && code[i] == 'x' ? x : std::string(1, code[i]);
  }
  return call;
}

// Returns how a function passes the number 0.3, 3 or 1 + 2^-30.
TracedScalar traced_by(const std::string& row, const std::string& number) {
  LuaStep step;
  step.input("x", HostTensor({DType::kF32, Shape{4}}, [](int64_t) { return 1.5; }));
  step.record(call_of(row, number));
  for (const TracedScalar& scalar : step.host().traced)
    if (scalar.value != 9) return scalar;
  ADD_FAILURE() << row << " records no number";
  return {};
}

TEST(NumbersOfFunctions, ArePassedAsInTorchXla) {
  const testing::Golden file = testing::Golden::load("xla/scalars.json");
  for (const testing::Golden& row : file["functions"].items()) {
    const std::string name = row["name"].text();
    SCOPED_TRACE(name);
    if (!row.has("special")) {
      EXPECT_EQ(traced_by(name, "0.3").use, ScalarUse::kAttribute);
      continue;
    }
    EXPECT_NE(traced_by(name, "0.3").use, ScalarUse::kAttribute);
    EXPECT_EQ(name_of(dtype_of(traced_by(name, "0.3"))), row["float"].text());
    EXPECT_EQ(name_of(dtype_of(traced_by(name, "3"))), row["integer"].text());
    EXPECT_EQ(is_special(traced_by(name, "(1 + 2^-30)")), row["special"].text() == "f32");
    for (const char* special : {"0", "1.0", "-1"}) EXPECT_TRUE(is_special(traced_by(name, special))) << special;
  }
}

// An input gives the same bits as a constant.
TEST(NumbersOfFunctions, AreBitIdenticalToConstants) {
  const auto computed = [](const std::string& code, bool baked) {
    LuaStep step;
    step.input("x",
               HostTensor({DType::kF32, Shape{5, 7}}, [](int64_t i) { return 0.37 * static_cast<double>(i) - 6; }));
    step.input("i", HostTensor({DType::kI64, Shape{5, 7}}, [](int64_t at) { return at - 9; }));
    if (baked) step.bake_numbers();
    return step.compute(code).bytes;
  };
  for (const char* const code : {"x * 0.1 + 3 - (0.7 - x) / 1.3",
                                 "2.5 / x",
                                 "(x:abs() + 0.5) ^ 2.25",
                                 "1.1 ^ x",
                                 "x:cast('bf16') * 0.3",
                                 "x:cast('f64') * 0.1 + 1e-9",
                                 "x:cast('f16') / 3",
                                 "i * 3 + 7",
                                 "i / 3",
                                 "i * 0.5",
                                 "i:eq(4):cast('f32')",
                                 "x:minimum(0.3):maximum(-0.2)",
                                 "x:clamp(-1.5, 2.25)",
                                 "nn.where(x:gt(0.4), 0.1, x)",
                                 "x:masked_fill(x:lt(0.2), -1e9)",
                                 "x:leaky_relu(0.03)",
                                 "x:elu(1.7)",
                                 "nn.full({5, 7}, 0.1) * x",
                                 "x:full_like(0.3):matmul(x:t())",
                                 "x + nn.tensor{0.1, 2, 0, 1, -3, 1e-3, 7}",
                                 "(x:mean() * 0.3):exp()"}) {
    EXPECT_EQ(computed(code, false), computed(code, true)) << code;
  }
}

TEST_F(Numbers, AListIsOneInput) {
  const int before = inputs(InputKind::kBatch);
  const HostTensor sum = step_.compute("(x + nn.tensor{0.5, 1, 0}):sum(1)");
  EXPECT_EQ(inputs(InputKind::kBatch), before + 1);
  EXPECT_EQ(sum.values(), (std::vector<double>{-0.75, 1.75, 1.25}));
  EXPECT_TRUE(step_.host().traced.empty()) << "torch uploads a list with any values";
}

// A number that a step returns next to its loss is used only by the run, even if it is 0 or 1.
TEST_F(Numbers, UsedOnlyByTheRunAreNotTraced) {
  Recording& recording = *step_.runtime().recording;
  host_number(recording, 1);
  host_number(recording, 0.25);
  EXPECT_EQ(step_.host().scalars, (std::vector<double>{1, 0.25}));
  EXPECT_TRUE(step_.host().traced.empty());
}

}  // namespace
}  // namespace runner::lua
