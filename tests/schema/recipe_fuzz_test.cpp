// Damaged recipes: for any bytes, the reader returns a recipe or throws errors with a place.
#include <random>

#include <gtest/gtest.h>

#include "schema/recipe/recipe_identity.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/schema/case_file.h"

namespace runner::schema {
namespace {

constexpr int kMutations = 2000;

// Tokens with a meaning in YAML or recipes.
constexpr std::string_view kPieces[] = {"{",       "}",
                                        "[",       "]",
                                        ":",       ": ",
                                        "- ",      "? ",
                                        "&a ",     "*a",
                                        "!",       "|",
                                        ">",       "\"",
                                        "'",       "#",
                                        "\n",      "\n  ",
                                        "\t",      "---\n",
                                        "...\n",   "<<: ",
                                        "${vars.", "${env:",
                                        "}",       "null",
                                        "~",       "0",
                                        "-1",      "1e999",
                                        "%",       "@",
                                        "`",       "\xff",
                                        "\xc3",    "é",
                                        "\r",      std::string_view("\0", 1)};

std::string mutate(std::string text, std::mt19937& random) {
  const auto pick = [&](size_t bound) { return random() % bound; };
  for (size_t count = 1 + pick(3); count > 0 && !text.empty(); --count) {
    const size_t at = pick(text.size());
    switch (pick(20)) {
      case 0: text[at] = static_cast<char>(pick(256)); break;
      case 1: text.erase(at, 1 + pick(8)); break;
      case 2: text.insert(at, kPieces[pick(std::size(kPieces))]); break;
      case 3: text.insert(at, text.substr(pick(text.size()), pick(40))); break;
      case 4: text.resize(at); break;
      case 5: text.insert(at, "#"); break;
      default: text[at] = static_cast<char>(text[at] ^ (1 << pick(8))); break;
    }
  }
  return text;
}

// Returns whether the text is a valid recipe.
bool check(const std::string& text, const std::vector<std::string>& overrides) {
  try {
    const ReadResult result = read_recipe_text(text, "r.yaml", overrides);
    EXPECT_FALSE(resolved_json(result).empty());
    return true;
  } catch (const RecipeError& error) {
    EXPECT_FALSE(error.diagnostics().empty());
    for (const Diagnostic& d : error.diagnostics()) {
      EXPECT_GE(d.where.line, 1) << text;
      EXPECT_GE(d.where.column, 1) << text;
      EXPECT_GE(d.width, 1) << text;
      EXPECT_FALSE(d.message.empty());
    }
    render_text(error.diagnostics(), true);
    render_json(error.diagnostics());
    return false;
  }
}

TEST(RecipeFuzz, DamagedRecipes) {
  std::vector<std::string> seeds;
  for (const std::string& path : testing::case_files()) {
    for (const testing::Case& c : testing::read_cases(path))
      if (!c.expects_errors) seeds.push_back(c.recipe);
  }
  std::mt19937 random(20240501);
  int good = 0;
  for (int i = 0; i < kMutations; ++i) good += check(mutate(seeds[random() % seeds.size()], random), {});
  EXPECT_GT(good, kMutations / 200);
  EXPECT_LT(good, kMutations);
}

TEST(RecipeFuzz, DamagedArguments) {
  const std::string base =
      "schema_version: 1\nmodel: {type: linear}\noptimizer: {type: sgd}\ntrain: {epochs: 1}\n"
      "data: {train: {format: csv, path: d.csv}, batch_size: 4}\n";
  const std::string arguments[] = {"optimizer.lr=0.1", "model={type: mlp, hidden: [3]}",
                                   "vars.a=${vars.b}", "name=\"x\"",
                                   "seed=12",          "log.every=10 steps"};
  std::mt19937 random(7);
  for (int i = 0; i < kMutations / 4; ++i) check(base, {mutate(arguments[random() % std::size(arguments)], random)});
}

}  // namespace
}  // namespace runner::schema
