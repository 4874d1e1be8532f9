#include "backends/tpu/scalar_signature.h"

#include <gtest/gtest.h>

namespace runner::backends::tpu {
namespace {

constexpr TracedScalar operand(double value) {
  return {ScalarUse::kOperand, value};
}
constexpr TracedScalar factor(double value) {
  return {ScalarUse::kFactor, value};
}
constexpr TracedScalar in_double(double value) {
  return {ScalarUse::kValue, value};
}

bool same_graph(const std::vector<TracedScalar>& a, const std::vector<TracedScalar>& b) {
  const bool same = signature_of(a) == signature_of(b);
  EXPECT_EQ(difference(a, b).text.empty(), same);
  EXPECT_EQ(difference(b, a).text.empty(), same);
  return same;
}

TEST(ScalarSignature, OnlyZeroAndOnesAreBaked) {
  EXPECT_TRUE(same_graph({factor(0.1)}, {factor(1e-9)}));
  EXPECT_TRUE(same_graph({factor(2)}, {factor(-3)}));
  for (const double special : {0.0, 1.0, -1.0}) EXPECT_FALSE(same_graph({factor(0.1)}, {factor(special)})) << special;
  EXPECT_FALSE(same_graph({factor(1)}, {factor(-1)}));
}

TEST(ScalarSignature, OperandsAreComparedAsF32) {
  const double near = 1 - 1e-12;
  EXPECT_TRUE(same_graph({operand(near)}, {operand(1)}));
  EXPECT_FALSE(same_graph({factor(near)}, {factor(1)}));
  EXPECT_FALSE(same_graph({in_double(near)}, {in_double(1)}));
  EXPECT_TRUE(same_graph({operand(1e-60)}, {operand(0)}));
  EXPECT_FALSE(same_graph({in_double(1e-60)}, {in_double(0)}));
}

TEST(ScalarSignature, EqualScalarsShareOneInput) {
  EXPECT_FALSE(same_graph({operand(0.9), factor(0.9)}, {operand(0.9), factor(0.8)}));
  EXPECT_TRUE(same_graph({operand(0.9), factor(0.9)}, {operand(0.8), factor(0.8)}));
  EXPECT_TRUE(same_graph({operand(0.9), factor(0.9)}, {operand(0.9), factor(0.9 + 1e-12)})) << "equal as f32";
  EXPECT_FALSE(same_graph({in_double(0.9), in_double(0.9)}, {in_double(0.9), in_double(0.9 + 1e-12)}));
  EXPECT_TRUE(same_graph({operand(0.9), in_double(0.9)}, {operand(0.9), in_double(0.8)}))
      << "f32 and f64 scalars are separate inputs";
  EXPECT_FALSE(same_graph({operand(2), operand(3), operand(2)}, {operand(2), operand(3), operand(3)}));
}

TracedScalar typed(ScalarUse use, double value, bool is_integer, DType tensor_dtype = DType::kF32) {
  return {.use = use, .value = value, .tensor_dtype = tensor_dtype, .is_integer = is_integer};
}

TEST(ScalarSignature, AttributesAreBaked) {
  const auto power = [](double value, bool is_integer = false) {
    return std::vector{typed(ScalarUse::kAttribute, value, is_integer)};
  };
  EXPECT_TRUE(same_graph(power(2.5), power(2.5)));
  EXPECT_FALSE(same_graph(power(2.5), power(2.25)));
  EXPECT_FALSE(same_graph(power(2), power(2, true))) << "2.0 and 2";
}

TEST(ScalarSignature, ScalarsHaveTheirUploadType) {
  const auto pair = [](const TracedScalar& a, const TracedScalar& b) { return std::vector{a, b}; };
  const TracedScalar half = typed(ScalarUse::kOperand, 0.5, false);
  const TracedScalar half_f64 = typed(ScalarUse::kOperand, 0.5, false, DType::kF64);
  const TracedScalar half_bf16 = typed(ScalarUse::kOperand, 0.5, false, DType::kBf16);
  EXPECT_EQ(signature_of(pair(half, half))[3], 0) << "one input";
  EXPECT_EQ(signature_of(pair(half, half_bf16))[3], 0) << "bf16 scalars are uploaded as f32";
  EXPECT_EQ(signature_of(pair(half, half_f64))[3], 1) << "f64 scalars are uploaded as f64";
  EXPECT_TRUE(same_graph(pair(half, half_f64), pair(half, typed(ScalarUse::kOperand, 0.25, false, DType::kF64))));
  // x > 2 passes an integer, x > 2.5 a double; x * 2 and x * 2.5 pass the same type.
  EXPECT_FALSE(same_graph({typed(ScalarUse::kValue, 2, true)}, {typed(ScalarUse::kValue, 2.5, false)}));
  EXPECT_TRUE(same_graph({typed(ScalarUse::kOperand, 2, true)}, {typed(ScalarUse::kOperand, 2.5, false)}));
  // 1 - x and 1.0 - x have constants of two types, 0 - x and 0.0 - x do not.
  EXPECT_FALSE(same_graph({typed(ScalarUse::kFactor, 1, true)}, {typed(ScalarUse::kFactor, 1, false)}));
  EXPECT_TRUE(same_graph({typed(ScalarUse::kFactor, 0, true)}, {typed(ScalarUse::kFactor, 0, false)}));
  EXPECT_FALSE(same_graph({typed(ScalarUse::kValue, 0, true)}, {typed(ScalarUse::kValue, 0, false)}));
  EXPECT_TRUE(same_graph({typed(ScalarUse::kOperand, 1, true)}, {typed(ScalarUse::kOperand, 1, false)}));
}

TEST(ScalarSignature, DifferenceDescribesTheChange) {
  const auto rate = [](double value) { return TracedScalar{ScalarUse::kFactor, value, "-lr"}; };
  const auto momentum = [](double value) { return TracedScalar{ScalarUse::kOperand, value, "momentum"}; };
  EXPECT_EQ(difference(std::vector{rate(-0.016)}, std::vector{rate(-0.0)}).text,
            "-lr changed from -0.016 to 0; the numbers 0, 1 and -1 are constants of the graph");
  EXPECT_EQ(difference(std::vector{rate(-1)}, std::vector{rate(-0.5)}).text,
            "-lr changed from -1, a constant of the graph like 0, 1 and -1, to -0.5, an input");
  EXPECT_EQ(difference(std::vector{momentum(0.25), rate(0.5)}, std::vector{momentum(0.5), rate(0.5)}).text,
            "-lr became equal to momentum, 0.5: they are one input now");
  EXPECT_EQ(difference(std::vector{momentum(0.5), rate(0.5)}, std::vector{momentum(0.25), rate(0.5)}).text,
            "momentum and -lr were equal, 0.5, and are 0.25 and 0.5 now: they are two inputs");
  // Scalars of the same name are distinguished by optimizer and batch.
  const auto whose = [](double value, int32_t optimizer, int64_t batch) {
    TracedScalar scalar{ScalarUse::kFactor, value, "-lr"};
    scalar.optimizer = optimizer;
    scalar.batch = batch;
    return scalar;
  };
  EXPECT_EQ(
      difference(std::vector{whose(-0.5, 1, 2), whose(-0.25, 2, 2)}, std::vector{whose(-0.5, 1, 2), whose(-0.5, 2, 2)})
          .text,
      "-lr of optimizer 2 became equal to -lr of optimizer 1, -0.5: they are one input now");
  EXPECT_EQ(
      difference(std::vector{whose(-0.5, 0, 1), whose(-0.5, 0, 2)}, std::vector{whose(-0.5, 0, 1), whose(-0.25, 0, 2)})
          .text,
      "-lr in batch 1 and -lr in batch 2 were equal, -0.5, and are -0.5 and -0.25 now: they are two inputs");
  // Enough digits to distinguish the numbers: baked scalars as written, inputs as uploaded.
  const auto power = [](double value) { return std::vector{typed(ScalarUse::kAttribute, value, false)}; };
  EXPECT_EQ(difference(power(2.5), power(2.5 + 1e-12)).text,
            "a number changed from 2.5 f64 to 2.500000000001 f64, which is a constant of the graph because it is an "
            "attribute of "
            "the op");
  EXPECT_EQ(difference(power(1.16), power(1.2)).text,
            "a number changed from 1.16 f64 to 1.2 f64, which is a constant of the graph because it is an attribute of "
            "the op");
  EXPECT_EQ(
      difference(std::vector{momentum(0.1)}, std::vector{momentum(1 - 1e-12)}).text,
      "momentum changed from 0.1 to 0.999999999999 (1 as f32); the numbers 0, 1 and -1 are constants of the graph");
  const auto threshold = [](double value, bool is_integer) {
    return std::vector{typed(ScalarUse::kValue, value, is_integer)};
  };
  EXPECT_EQ(difference(threshold(2, true), threshold(2.5, false)).text,
            "a number changed from 2 i64 to 2.5 f64, an input of another type");
  EXPECT_EQ(difference(threshold(0, true), threshold(0, false)).text,
            "a number changed from 0 i64 to 0 f64; the numbers 0, 1 and -1 are constants of the graph");
  EXPECT_EQ(difference(std::vector{momentum(0.5), typed(ScalarUse::kAttribute, 2, true)},
                       std::vector{momentum(0.25), typed(ScalarUse::kAttribute, 3, true)})
                .scalar,
            1u);
}

bool same_in(const Dialect& dialect, const DeviceTypes& types, const std::vector<TracedScalar>& a,
             const std::vector<TracedScalar>& b) {
  const ScalarRules rules = scalar_rules(dialect, types);
  const bool same = signature_of(a, rules) == signature_of(b, rules);
  EXPECT_EQ(difference(a, b, rules).text.empty(), same);
  EXPECT_EQ(difference(b, a, rules).text.empty(), same);
  return same;
}

// In 1.7, whether a scalar is 0 or 1 is decided by the value as written, and all are uploaded in one type.
TEST(ScalarSignature, FollowsPyTorchXla17) {
  const auto same = [](const std::vector<TracedScalar>& a, const std::vector<TracedScalar>& b) {
    return same_in(kXla17, kFullTypes, a, b);
  };
  const double near = 1 - 1e-12;
  EXPECT_FALSE(same({operand(near)}, {operand(1)}));
  EXPECT_TRUE(same({operand(near)}, {operand(0.5)}));
  EXPECT_FALSE(same({operand(1e-60)}, {operand(0)}));
  EXPECT_FALSE(same({operand(0.9), in_double(0.9)}, {operand(0.9), in_double(0.8)})) << "values are f32 too";
  EXPECT_TRUE(same({in_double(0.9), in_double(0.9)}, {in_double(0.9), in_double(0.9 + 1e-12)}));
}

TEST(ScalarSignature, FollowsPyTorchXla17InBf16) {
  const auto same = [](const DeviceTypes& types) {
    return same_in(kXla17, types, {operand(0.999), operand(0.99999)}, {operand(0.999), operand(0.5)});
  };
  EXPECT_TRUE(same(kFullTypes)) << "three separate inputs";
  EXPECT_FALSE(same(kBf16Types)) << "0.999 and 0.99999 are both 1 in bf16: one input";
  EXPECT_FALSE(same_in(kXla17, kBf16Types, {operand(0.999)}, {operand(1)})) << "but not a constant";
}

TEST(ScalarSignature, NeverDiffersInTheCleanDialect) {
  const std::vector<TracedScalar> numbers{operand(0.5), factor(0.5), in_double(0.25)};
  for (const double value : {0.0, 1.0, -1.0, 0.25, 0.5})
    EXPECT_TRUE(same_in(kClean, kBf16Types, numbers, {operand(value), factor(0.5), in_double(value)})) << value;
}

}  // namespace
}  // namespace runner::backends::tpu
