#include "backends/tpu/scalar_signature.h"

#include <gtest/gtest.h>

#include "backends/tpu/dialect.h"

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
  EXPECT_EQ(difference(a, b).empty(), same);
  EXPECT_EQ(difference(b, a).empty(), same);
  return same;
}

TEST(ScalarSignature, OnlyZeroAndOnesAreValues) {
  EXPECT_TRUE(same_graph({factor(0.1)}, {factor(1e-9)}));
  EXPECT_TRUE(same_graph({factor(2)}, {factor(-3)}));
  for (const double special : {0.0, 1.0, -1.0}) EXPECT_FALSE(same_graph({factor(0.1)}, {factor(special)})) << special;
  EXPECT_FALSE(same_graph({factor(1)}, {factor(-1)}));
}

TEST(ScalarSignature, OperandsAreRoundedFirst) {
  const double near = 1 - 1e-12;
  EXPECT_TRUE(same_graph({operand(near)}, {operand(1)}));
  EXPECT_FALSE(same_graph({factor(near)}, {factor(1)}));
  EXPECT_FALSE(same_graph({in_double(near)}, {in_double(1)}));
  EXPECT_TRUE(same_graph({operand(1e-60)}, {operand(0)}));
  EXPECT_FALSE(same_graph({in_double(1e-60)}, {in_double(0)}));
}

TEST(ScalarSignature, EqualNumbersAreOneInput) {
  EXPECT_FALSE(same_graph({operand(0.9), factor(0.9)}, {operand(0.9), factor(0.8)}));
  EXPECT_TRUE(same_graph({operand(0.9), factor(0.9)}, {operand(0.8), factor(0.8)}));
  EXPECT_TRUE(same_graph({operand(0.9), factor(0.9)}, {operand(0.9), factor(0.9 + 1e-12)})) << "equal as f32";
  EXPECT_FALSE(same_graph({in_double(0.9), in_double(0.9)}, {in_double(0.9), in_double(0.9 + 1e-12)}));
  EXPECT_TRUE(same_graph({operand(0.9), in_double(0.9)}, {operand(0.9), in_double(0.8)})) << "f32 and f64 are apart";
  EXPECT_FALSE(same_graph({operand(2), operand(3), operand(2)}, {operand(2), operand(3), operand(3)}));
}

TEST(ScalarSignature, DifferenceSaysWhatChanged) {
  const auto rate = [](double value) { return TracedScalar{ScalarUse::kFactor, value, "-lr"}; };
  const auto momentum = [](double value) { return TracedScalar{ScalarUse::kOperand, value, "momentum"}; };
  EXPECT_EQ(difference(std::vector{rate(-0.016)}, std::vector{rate(-0.0)}),
            "-lr was -0.0160000008 and is 0 now, which is part of the graph (0, 1 and -1 are)");
  EXPECT_EQ(difference(std::vector{rate(-1)}, std::vector{rate(-0.5)}),
            "-lr was -1, a part of the graph (0, 1 and -1 are), and is -0.5 now, an input");
  EXPECT_EQ(difference(std::vector{momentum(0.25), rate(0.5)}, std::vector{momentum(0.5), rate(0.5)}),
            "-lr has become equal to momentum, 0.5: they are one input now");
  EXPECT_EQ(difference(std::vector{momentum(0.5), rate(0.5)}, std::vector{momentum(0.25), rate(0.5)}),
            "momentum and -lr, which were equal, 0.5, are 0.25 and 0.5 now: they are two inputs");
}

bool same_in(Dialect dialect, const DeviceTypes& types, const std::vector<TracedScalar>& a,
             const std::vector<TracedScalar>& b) {
  const ScalarRules rules = scalar_rules(dialect, types);
  const bool same = signature_of(a, rules) == signature_of(b, rules);
  EXPECT_EQ(difference(a, b, rules).empty(), same);
  EXPECT_EQ(difference(b, a, rules).empty(), same);
  return same;
}

// Of 1.7: whether a number is 0 or 1 is asked of the number as it was written, and all are uploaded in one type.
TEST(ScalarSignature, OfAnOlderPyTorchXla) {
  const auto same = [](const std::vector<TracedScalar>& a, const std::vector<TracedScalar>& b) {
    return same_in(Dialect::kXla17, kFullTypes, a, b);
  };
  const double near = 1 - 1e-12;
  EXPECT_FALSE(same({operand(near)}, {operand(1)}));
  EXPECT_TRUE(same({operand(near)}, {operand(0.5)}));
  EXPECT_FALSE(same({operand(1e-60)}, {operand(0)}));
  EXPECT_FALSE(same({operand(0.9), in_double(0.9)}, {operand(0.9), in_double(0.8)})) << "values are f32 as well";
  EXPECT_TRUE(same({in_double(0.9), in_double(0.9)}, {in_double(0.9), in_double(0.9 + 1e-12)}));
}

TEST(ScalarSignature, OfAnOlderPyTorchXlaInBf16) {
  const auto same = [](const DeviceTypes& types) {
    return same_in(Dialect::kXla17, types, {operand(0.999), operand(0.99999)}, {operand(0.999), operand(0.5)});
  };
  EXPECT_TRUE(same(kFullTypes)) << "three numbers apart";
  EXPECT_FALSE(same(kBf16Types)) << "0.999 and 0.99999 are both 1 in bf16: one input";
  EXPECT_FALSE(same_in(Dialect::kXla17, kBf16Types, {operand(0.999)}, {operand(1)})) << "and yet not a constant";
}

TEST(ScalarSignature, OfACleanDialectNeverDiffers) {
  const std::vector<TracedScalar> numbers{operand(0.5), factor(0.5), in_double(0.25)};
  for (const double value : {0.0, 1.0, -1.0, 0.25, 0.5})
    EXPECT_TRUE(same_in(Dialect::kClean, kBf16Types, numbers, {operand(value), factor(0.5), in_double(value)}))
        << value;
}

}  // namespace
}  // namespace runner::backends::tpu
