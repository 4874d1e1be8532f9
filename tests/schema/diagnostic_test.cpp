#include "schema/base/diagnostic.h"

#include <set>

#include <gtest/gtest.h>

#include "schema/recipe/recipe_reader.h"
#include "tests/support/json.h"

namespace runner::schema {
namespace {

std::vector<Diagnostic> diagnostics_of(const std::string& text) {
  try {
    read_recipe_text(text, "r.yaml");
  } catch (const RecipeError& error) {
    return error.diagnostics();
  }
  return {};
}

constexpr const char* kWrong =
    "schema_version: 1\nmodel: {type: linear}\nsede: 3\noptimizer: {type: sgd}\n"
    "data: {train: {format: csv, path: d}, batch_size: 1}\ntrain: {epochs: 0}\n";

TEST(Diagnostic, Json) {
  const auto json = support::Json::parse(render_json(diagnostics_of(kWrong)));
  EXPECT_EQ(
      json.dump(),
      R"({"ok":false,"errors":[{"id":"unknown-key","file":"r.yaml","line":3,"column":1,"key":"sede",)"
      R"("message":"unknown key sede","hint":"did you mean seed?"},{"id":"out-of-range","file":"r.yaml","line":6,)"
      R"("column":17,"key":"train.epochs","message":"train.epochs must be between 1 and 2147483647, got 0",)"
      R"("hint":""}]})");
  EXPECT_EQ(support::Json::parse(render_json({})), support::Json::parse(R"({"ok": true, "errors": []})"));
}

TEST(Diagnostic, JsonOfAnyBytes) {
  Diagnostic d;
  d.where = {"caf\xe9.yaml", 1, 1};
  EXPECT_EQ(support::Json::parse(render_json(std::vector{d}))["errors"][0]["file"], "caf\xEF\xBF\xBD.yaml");
}

TEST(Diagnostic, ColourAddsOnlyEscapes) {
  const std::vector<Diagnostic> diagnostics = diagnostics_of(kWrong);
  std::string coloured = render_text(diagnostics, true);
  EXPECT_NE(coloured.find("\033[1;31merror:"), std::string::npos);
  for (size_t at = coloured.find('\033'); at != std::string::npos; at = coloured.find('\033')) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  EXPECT_EQ(coloured, render_text(diagnostics));
}

TEST(Diagnostic, IdsAreUniqueAndInOrder) {
  std::set<std::string_view> names;
  for (const ErrorIdRow& row : error_ids()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(name_of(row.id), row.name);
    EXPECT_EQ(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string_view::npos);
    EXPECT_FALSE(row.text.empty());
  }
}

}  // namespace
}  // namespace runner::schema
