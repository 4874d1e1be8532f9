// Compares the dtypes of matrix products with those of Accelerate's autocast regions.
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/modules.h"
#include "tests/golden/golden.h"
#include "tests/lua/lua_step.h"

namespace runner::lua {
namespace {

using backends::DType;
using testing::Golden;

// A step with the inputs x and w of Accelerate's test case, and its model as `model`.
class AutocastStep {
 public:
  AutocastStep(const Golden& file, const Golden& item)
      : item_(item), step_({item.name() == "bf16" ? DType::kBf16 : DType::kF16}) {
    for (const char* name : {"x", "w"}) {
      const std::vector<double> numbers = file[name].tensor().as<double>();
      step_.input(name, HostTensor({DType::kF32, file[name].tensor().shape}, std::span<const double>(numbers)));
    }
    step_.run("nn.Sequential{nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)}");
    lua_State* const state = step_.runtime().state();
    step_.declare(*module_value(state, -1, "the model"));
    lua_pushglobaltable(state);
    lua_insert(state, -2);
    lua_pushliteral(state, "model");
    lua_insert(state, -2);
    lua_rawset(state, -3);
    lua_settop(state, 0);
    recording().set_precision();
  }

  Recording& recording() { return *step_.runtime().recording; }
  std::vector<float> values(const std::string& code) {
    const std::vector<double> values = step_.compute(code).values();
    return {values.begin(), values.end()};
  }

  DType dtype(const std::string& code) { return step_.record(code).dtype(); }

  // Compares the value of `code` with Accelerate's `result`.
  void expect(const std::string& result, const std::string& code) {
    SCOPED_TRACE(result);
    const testing::GoldenTensor want = item_["results"][result].tensor();
    const Value value = step_.record(code);
    EXPECT_EQ(value.dtype(), want.dtype);
    const std::vector<double> got = step_.compute(value).values(), wanted = want.as<double>();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6 * std::fabs(wanted[i])) << i;
  }

 private:
  const Golden item_;
  LuaStep step_;
};

TEST(Autocast, RegionsMatchAccelerate) {
  const Golden file = Golden::load("autocast.json");
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    AutocastStep step(file, item);
    step.expect("outside", "x:matmul(w)");
    step.expect("model", "model(x)");
    step.expect("after the model", "model(x):matmul(w:t())");
    {
      const AutocastRegion inside(step.recording(), true);
      step.expect("inside", "x:matmul(w)");
      step.expect("the model inside", "model(x)");
      {
        const AutocastRegion off(step.recording(), false);
        step.expect("off inside", "x:matmul(w)");
        step.expect("a layer off inside", "model[1](x)");
        const AutocastRegion on(step.recording(), true);
        step.expect("on in off", "x:matmul(w)");
      }
      step.expect("inside again", "x:matmul(w)");
    }
    step.expect("outside again", "x:matmul(w)");
  }
}

// Intended differences from Accelerate. A single layer that is called directly is treated like a model, so its outputs
// are f32. Disabling autocast also affects the model, while Accelerate's model enables it again by its own region.
TEST(Autocast, DocumentedDifferencesFromAccelerate) {
  const Golden file = Golden::load("autocast.json");
  for (const Golden& item : file.cases()) {
    SCOPED_TRACE(item.name());
    AutocastStep step(file, item);
    const auto layer = item["results"]["a layer inside"].tensor();
    EXPECT_NE(layer.dtype, DType::kF32);
    EXPECT_EQ(step.values("model[1](x)"), layer.as<float>());
    EXPECT_EQ(step.dtype("model[1](x)"), DType::kF32);
    const AutocastRegion off(step.recording(), false);
    const auto model = item["results"]["the model off inside"].tensor();
    EXPECT_NE(step.values("model(x)"), model.as<float>());
  }
}

// Includes tensors in plain tables. Outputs of a module that another module calls keep their dtype.
TEST(Autocast, OutputsOfModelsAreF32) {
  LuaStep step({DType::kBf16});
  step.input("x", HostTensor({DType::kF32, backends::Shape{2, 2}}, [](int64_t) { return 1.001; }));
  const std::string inner = "nn.Module{forward = function(self, x) local y = x:matmul(x) return {y, y}, y end}";
  const std::string outer = "nn.Module{inner = " + inner + ", forward = function(self, x) local t, y = self.inner(x)" +
                            " return t[1]:dtype() .. ' ' .. y:dtype(), t, y end}";
  EXPECT_EQ(
      step.text("(function() local said, t, y = " + outer +
                "(x) return said .. ' ' .. t[2]:dtype() .. ' ' .. y:dtype() .. ' ' .. x:matmul(x):dtype() end)()"),
      "bf16 bf16 f32 f32 f32");
}

}  // namespace
}  // namespace runner::lua
