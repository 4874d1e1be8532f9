// The scalars of an update against those that torch.optim passed to torch_xla.
#include "runner/optim/traced_scalars.h"

#include <gtest/gtest.h>

#include "tests/golden/golden.h"
#include "tests/optim/golden_optimizer.h"

namespace runner::optim {
namespace {

using backends::ScalarUse;
using backends::TracedScalar;
using testing::Golden;

ScalarUse use_of(const std::string& op) {
  if (op == "mul" || op == "div" || op == "add") return ScalarUse::kOperand;
  return op == "addcmul" || op == "addcdiv" ? ScalarUse::kValue : ScalarUse::kFactor;
}

TEST(TracedScalars, MatchTorch) {
  for (const Golden& item : Golden::load("xla/scalars.json").cases()) {
    SCOPED_TRACE(item.name());
    Rule rule;
    rule.type = optimizer_type_of(item["optimizer"].text());
    rule.hyper = hyper_of(item, rule.type);
    const std::vector<double> factors = item["factors"].numbers();
    for (size_t step = 0; step < factors.size(); ++step) {
      std::vector<TracedScalar> scalars;
      trace_scalars(rule, {.lr = rule.hyper.lr * factors[step], .momentum = base_momentum(rule)},
                    static_cast<int64_t>(step) + 1, scalars);
      const std::vector<Golden> expected = item["steps"].items()[step].items();
      ASSERT_EQ(scalars.size(), expected.size()) << "step " << step;
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(scalars[i].use, use_of(expected[i].items()[0].text())) << "step " << step << ", scalar " << i;
        EXPECT_DOUBLE_EQ(scalars[i].value, expected[i].items()[1].number()) << "step " << step << ", scalar " << i;
      }
    }
  }
}

// The declared uses match what torch_xla did with each op.
TEST(TracedScalars, UsesAreAsMeasured) {
  const Golden file = Golden::load("xla/scalars.json");
  for (const Golden& row : file["uses"].items()) {
    const ScalarUse use = use_of(row["name"].text());
    EXPECT_EQ(row["special"].text(), use == ScalarUse::kOperand ? "f32" : "f64") << row["name"].text();
    EXPECT_EQ(row["pool"].text(), use == ScalarUse::kValue ? "f64" : "f32") << row["name"].text();
    for (const Golden& other : row["shares_with"].items())
      EXPECT_EQ(use_of(other.text()) == ScalarUse::kValue, use == ScalarUse::kValue);
  }
}

}  // namespace
}  // namespace runner::optim
