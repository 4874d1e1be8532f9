// Constructors of `optim`.
#include "runner/lua/optimizers.h"

#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/document.h"
#include "runner/lua/libraries.h"
#include "runner/lua/modules.h"
#include "runner/model/models.h"
#include "schema/base/error.h"
#include "schema/recipe/field_table.h"

namespace runner::lua {
namespace {

// Returns the optimizers created by the Lua expression `made` for a linear model whose module is `model`.
train::Optimizers optimizers_of(const std::string& made) {
  Recording recording;
  Runtime runtime({});
  runtime.recording = &recording;
  open_libraries(runtime);
  schema::ModelSpec linear;
  linear.type = schema::ModelType::kLinear;
  data::Encoding encoding;
  encoding.feature_shape = {2};
  encoding.outputs = 3;
  nn::Model model = nn::build_model(linear, encoding);
  model.module->declare(model.parameters, "");
  lua_State* const state = runtime.state();
  const std::string chunk = "local optim, model = require 'optim', ... return " + made;
  if (luaL_loadbufferx(state, chunk.data(), chunk.size(), "=hook", "t") != LUA_OK)
    fail(ErrorKind::kRun, "{}", lua_tostring(state, -1));
  push_module(state, model.module);
  runtime.call(state, 1, 1);
  train::Optimizers optimizers = take_optimizers(state, model, schema::Recipe{});
  lua_settop(state, 0);
  return optimizers;
}

TEST(LuaOptimizers, ConstructorsHaveTheRuleOfTheirName) {
  const auto& types = schema::find_fields("optimizer.type")[0].choices;
  for (const OptimizerFunction& function : optimizer_functions()) {
    const std::string name = function.name;
    if (name == "Optimizer") continue;  // a custom update rule
    const train::Optimizers made = optimizers_of(fmt::format("optim.{}(model, {{lr = 0.25}})", name));
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    ASSERT_EQ(made.groups.size(), 1U) << name;
    EXPECT_EQ(types[static_cast<size_t>(made.groups[0].rule.type)].name, lower);
    EXPECT_EQ(made.groups[0].rule.hyper.lr, 0.25) << name;
    EXPECT_EQ(made.groups[0].params, (std::vector<std::string>{"0.weight", "0.bias"})) << name;
  }
}

}  // namespace
}  // namespace runner::lua
