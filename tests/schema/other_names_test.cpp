// Names of other programs: the hints name keys that exist, and only for names that are no keys themselves.
#include "schema/recipe/other_names.h"

#include <gtest/gtest.h>

#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::schema {
namespace {

TEST(OtherNames, LeadToKeysThatExist) {
  for (const auto& [name, key, hint] : other_keys()) {
    EXPECT_TRUE(find_fields(name).empty()) << name;
    EXPECT_TRUE(paths_ending_with(name).empty()) << name;
    EXPECT_FALSE(key.empty() ? hint.empty() : find_fields(key).empty()) << name;
    EXPECT_TRUE(hint.empty() || key.empty() || hint.find(key) != std::string_view::npos) << hint;
  }
}

TEST(OtherNames, IgnoreCaseAndDashes) {
  ASSERT_NE(find_other_key("Max-Steps"), nullptr);
  EXPECT_EQ(find_other_key("Max-Steps")->key, "train.steps");
  EXPECT_EQ(hint_of(*find_other_key("Max-Steps")), "write train.steps");
  EXPECT_EQ(hint_of(*find_other_key("fp16")), "write mixed_precision: fp16");
  EXPECT_EQ(find_other_key("unheard_of"), nullptr);
  EXPECT_EQ(choice_of_other_name("backend", "CUDA"), "gpu");
  EXPECT_EQ(choice_of_other_name("mixed_precision", "bfloat16"), "bf16");
  EXPECT_EQ(choice_of_other_name("optimizer.type", "cuda"), "");
}

TEST(OtherNames, AreHintsOfErrors) {
  const auto error = [](const std::string& line) {
    return read_recipe_text(
        "schema_version: 1\nmodel: {type: linear}\ndata: {train: {format: csv, path: d.csv}}\n" + line + "\n",
        "r.yaml");
  };
  for (const auto& [line, hint] : {std::pair{"nprocs: 4", "hint: write num_processes"},
                                   {"backend: xla", "hint: did you mean tpu?"},
                                   {"optimizer: {type: sgd, learning_rate: 1}", "hint: write optimizer.lr"}}) {
    try {
      error(line);
      ADD_FAILURE() << line;
    } catch (const RecipeError& failure) {
      EXPECT_NE(render_text(failure.diagnostics()).find(hint), std::string::npos) << render_text(failure.diagnostics());
    }
  }
}

}  // namespace
}  // namespace runner::schema
