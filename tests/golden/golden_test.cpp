// The loader returns exactly what the scripts wrote, and the files have the structure that README.md describes.
#include "tests/golden/golden.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/thrown_text.h"

namespace runner::testing {
namespace {

TEST(Golden, ReadsFloatsExactly) {
  const GoldenTensor x = Golden::load("ops.json").find("exp/specials/f32")["inputs"]["x"].tensor();
  const std::vector<float> values = x.as<float>();
  EXPECT_EQ(x.dtype, backends::DType::kF32);
  EXPECT_EQ(x.shape.to_string(), "(15)");
  EXPECT_FALSE(std::signbit(values[0]));
  EXPECT_TRUE(std::signbit(values[1]));
  EXPECT_EQ(values[2], INFINITY);
  EXPECT_EQ(values[3], -INFINITY);
  EXPECT_TRUE(std::isnan(values[4]));
  EXPECT_EQ(std::bit_cast<uint32_t>(values[5]), 0x7f7fffffu);  // the largest f32
  EXPECT_EQ(std::bit_cast<uint32_t>(values[7]), 0x00800000u);  // the smallest normal
  EXPECT_EQ(std::bit_cast<uint32_t>(values[8]), 1u);           // the smallest subnormal
}

TEST(Golden, ReadsIntegersExactly) {
  const Golden cast = Golden::load("ops.json").find("cast/i64_to_f64");
  EXPECT_EQ(cast["inputs"]["x"].tensor().integers.back(), (int64_t{1} << 53) + 1);
  EXPECT_EQ(cast["output"].tensor().values.back(), std::ldexp(1.0, 53));
}

TEST(Golden, ReadsScalarsListsAndNulls) {
  const Golden file = Golden::load("ops.json");
  EXPECT_EQ(file.find("clamp/low/f32")["attrs"]["low"].number(), 0.0);
  EXPECT_FALSE(file.find("clamp/low/f32")["attrs"].has("high"));
  EXPECT_EQ(file.find("sum/axes_0_2/f64")["attrs"]["axes"].integers(), (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(file.find("sum/axes_0_1_2_kept/f64")["attrs"]["keep_dims"].flag());
  EXPECT_EQ(file.find("where/f32")["inputs"].keys(), (std::vector<std::string>{"condition", "x", "y"}));
}

TEST(Golden, ErrorNamesTheMissingValue) {
  EXPECT_EQ(support::thrown_text<std::runtime_error>([] { Golden::load("none.json"); }),
            "none.json: cannot read it in tests/golden");
  const Golden file = Golden::load("ops.json");
  EXPECT_EQ(support::thrown_text<std::runtime_error>([&] { file.find("exp/f16"); }), "ops.json: has no case exp/f16");
  const Golden relu = file.find("relu/f32");
  EXPECT_EQ(support::thrown_text<std::runtime_error>([&] { relu["slope"]; }),
            "ops.json: cases: relu/f32: has no slope");
  EXPECT_EQ(support::thrown_text<std::runtime_error>([&] { relu["op"].number(); }),
            "ops.json: cases: relu/f32: op: is not a number");
  EXPECT_EQ(support::thrown_text<std::runtime_error>([&] { relu["inputs"].items(); }),
            "ops.json: cases: relu/f32: inputs: is not an array");
}

TEST(Golden, EveryOpCaseIsComplete) {
  for (const Golden& item : Golden::load("ops.json").cases()) {
    SCOPED_TRACE(item.name());
    const GoldenTensor output = item["output"].tensor();
    for (const std::string& key : item["inputs"].keys()) item["inputs"][key].tensor();
    if (!item.has("grads")) continue;
    EXPECT_EQ(item["grad_output"].tensor().shape, output.shape);
    for (const std::string& key : item["grads"].keys()) {
      EXPECT_EQ(item["grads"][key].tensor().shape, item["inputs"][key].tensor().shape) << key;
    }
  }
}

TEST(Golden, EveryOptimizerCaseHasTenSteps) {
  const Golden file = Golden::load("optimizers.json");
  ASSERT_EQ(file["params"].size(), 2u);
  ASSERT_EQ(file["grads"].size(), 10u);
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    ASSERT_EQ(item["steps"].size(), 10u);
    for (const Golden& step : item["steps"].items()) {
      EXPECT_EQ(step["params"].items()[0].numbers().size(), 17u);
      EXPECT_EQ(step["params"].items()[1].numbers().size(), 6u);
      for (const std::string& slot : step["slots"].keys()) EXPECT_EQ(step["slots"][slot].size(), 2u) << slot;
    }
  }
}

TEST(Golden, EveryTrainingCaseIsComplete) {
  const Golden file = Golden::load("training.json");
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    EXPECT_EQ(item["loss"].size() % 3, 0u);  // epochs
    EXPECT_EQ(item["grad_norm"].size(), item["loss"].size());
    EXPECT_EQ(item["lr"].size(), item["loss"].size());
    EXPECT_LT(item["noise"]["loss"].number(), item["recipe"].has("mixed_precision") ? 1e-2 : 1e-5);
    EXPECT_EQ(item["initial"].keys(), item["final"].keys());
    const std::string folder = support::source_path("tests/golden/training/");
    for (const Golden& path : {item["recipe"]["data"]["train"]["path"], item["recipe"]["model"]["init_from"]}) {
      EXPECT_TRUE(std::filesystem::exists(folder + path.text())) << path.text();
    }
    EXPECT_TRUE(std::filesystem::exists(folder + item.name() + ".yaml"));
  }
}

TEST(Golden, EveryMetricCaseHasAMaskPerSample) {
  for (const Golden& item : Golden::load("metrics.json").cases()) {
    SCOPED_TRACE(item.name());
    const GoldenTensor rows = item["inputs"][item["inputs"].has("logits") ? "logits" : "predictions"].tensor();
    EXPECT_EQ(item["inputs"]["mask"].tensor().shape.elements(), rows.shape[0]);
    EXPECT_FALSE(item["metrics"].keys().empty());
  }
}

TEST(Golden, EveryInitialiserHasMoments) {
  for (const Golden& item : Golden::load("init.json").cases()) {
    for (const std::string& key : item["parameters"].keys()) {
      SCOPED_TRACE(item.name() + " " + key);
      const Golden row = item["parameters"][key];
      if (row["kind"].text() != "uniform") continue;
      EXPECT_NEAR(row["high"].number() - row["low"].number(), row["std"].number() * std::sqrt(12.0), 1e-12);
    }
  }
}

}  // namespace
}  // namespace runner::testing
