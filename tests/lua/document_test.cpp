// Compares docs/lua.md with the tables of the binding.
#include "runner/lua/document.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/lua/accelerator.h"
#include "runner/lua/hook_table.h"
#include "runner/lua/tensor.h"
#include "schema/base/text.h"
#include "schema/recipe/field_table.h"
#include "tests/support/paths.h"

namespace runner::lua {
namespace {

std::string document() {
  std::ifstream file(support::source_path("docs/lua.md"));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string row(std::string_view usage, std::string_view text) {
  std::string line = fmt::format("| `{}` | {} |\n", usage, text);
  return line;
}

// An optimizer of the recipe has the options of the recipe.
std::string row_of(const OptimizerFunction& function) {
  if (function.name == std::string_view("Optimizer"))
    return row("optim.Optimizer(module, {update = ..., slots = ..., lr = ...})",
               "A custom rule: update(p, g, slots, lr, step) returns the new p and sets slots.NAME.");
  const std::string type = lower_case(function.name);
  std::map<int, std::string_view> options;  // in the order of the recipe
  for (const schema::Field& field : schema::fields()) {
    if (field.parent != "optimizer" || field.name == "type" || field.name == "groups") continue;
    if (field.name == "no_decay") continue;  // divides the optimizer of a recipe
    const bool applies = std::ranges::all_of(field.when, [&](const schema::Condition& condition) {
      return std::ranges::find(condition.values, type) != condition.values.end();
    });
    if (applies) options.emplace(field.order, field.name);
  }
  std::vector<std::string> names;
  for (const auto& [order, name] : options) names.emplace_back(name);
  return row(fmt::format("optim.{}(module [, options])", function.name), fmt::format("{}.", fmt::join(names, ", ")));
}

// Returns the table rows from a heading to the end of the page.
std::set<std::string> rows_from(const std::string& heading) {
  std::istringstream text(document());
  std::set<std::string> rows;
  bool is_there = false;
  for (std::string line; std::getline(text, line);) {
    is_there = is_there || line == heading;
    if (is_there && line.starts_with("| `")) rows.insert(line + '\n');
  }
  return rows;
}

TEST(LuaDocument, ListsExactlyTheExistingNames) {
  std::set<std::string> rows;
  for (const AcceleratorName& name : accelerator_names())
    rows.insert(row(*name.usage != 0 ? name.usage : fmt::format("acc.{}", name.name), name.text));
  for (const ModuleFunction& module : module_functions()) rows.insert(row(module.usage, module.text));
  for (const OptimizerFunction& function : optimizer_functions()) rows.insert(row_of(function));
  for (const TensorFunction& function : tensor_functions()) rows.insert(row(function.usage, function.text));
  const std::set<std::string> written = rows_from("## acc");
  for (const std::string& line : rows) EXPECT_TRUE(written.contains(line)) << "add " << line;
  for (const std::string& line : written) EXPECT_TRUE(rows.contains(line)) << "remove " << line;
}

TEST(LuaDocument, ListsEntriesAndFieldsOfBatchesAndSamples) {
  const std::string text = document();
  for (const std::string_view entry : hook_entries()) {
    const bool is_there = text.find(fmt::format("`{}(", entry)) != text.npos ||
                          text.find(fmt::format("| `{}`", entry)) != text.npos ||
                          text.find(fmt::format("| `{}.NAME(", entry)) != text.npos;
    EXPECT_TRUE(is_there) << entry;
  }
  const std::string batch = text.substr(text.find("\n`batch` has"), 400);
  for (const BatchField& field : batch_fields())
    EXPECT_NE(batch.find(fmt::format("`{}`", field.name)), batch.npos) << field.name;
  const size_t sample = text.find("\n`sample.features` is");
  for (const std::string_view field : sample_fields())
    EXPECT_NE(text.find(fmt::format("`sample.{}`", field), sample), text.npos) << field;
}

TEST(LuaDocument, UsageBeginsWithTheName) {
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
