// docs/lua.md says what the tables of the binding say.
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/lua/accelerator.h"
#include "runner/lua/modules.h"
#include "runner/lua/optimizers.h"
#include "runner/lua/tensor.h"

namespace runner::lua {
namespace {

std::string document() {
  std::ifstream file(RUNNER_SOURCE_DIR "/docs/lua.md");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string row(std::string_view usage, std::string_view text) {
  std::string line = fmt::format("| `{}` | {} |\n", usage, text);
  return line;
}

TEST(LuaDocument, HasARowForEveryName) {
  const std::string text = document();
  std::set<std::string> rows;
  for (const AcceleratorName& name : accelerator_names())
    rows.insert(row(*name.usage != 0 ? name.usage : fmt::format("acc.{}", name.name), name.text));
  for (const ModuleFunction& module : module_functions()) rows.insert(row(module.usage, module.text));
  for (const OptimizerFunction& function : optimizer_functions()) rows.insert(row(function.usage, function.text));
  for (const TensorFunction& function : tensor_functions()) rows.insert(row(function.usage, function.text));
  for (const std::string& line : rows) EXPECT_NE(text.find(line), std::string::npos) << "add " << line;
}

TEST(LuaDocument, EveryNameIsInItsUsage) {
  for (const ModuleFunction& module : module_functions())
    EXPECT_TRUE(std::string_view(module.usage).starts_with(fmt::format("nn.{}", module.name))) << module.name;
  constexpr std::string_view kOperators = "add sub mul div pow neg";
  for (const TensorFunction& function : tensor_functions()) {
    if (kOperators.find(function.name) != std::string_view::npos) continue;
    const std::string start = fmt::format("{}{}(", function.is_method ? "x:" : "nn.", function.name);
    EXPECT_TRUE(std::string_view(function.usage).starts_with(start)) << function.name;
  }
}

}  // namespace
}  // namespace runner::lua
