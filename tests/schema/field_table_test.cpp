// The field table is consistent, and the structs and committed files match it.
#include "schema/recipe/field_table.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "schema/recipe/field_value.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/init_recipe.h"
#include "schema/recipe/json_schema.h"
#include "schema/recipe/recipe.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::schema {
namespace {

TEST(FieldTable, LookUps) {
  EXPECT_GT(fields().size(), 150u);
  ASSERT_EQ(find_fields("optimizer.lr").size(), 1u);
  EXPECT_EQ(find_fields("optimizer.lr")[0].path(), "optimizer.lr");
  EXPECT_EQ(find_fields("data.train.features").size(), 4u);
  EXPECT_EQ(find_fields("seed").size(), 1u);
  EXPECT_TRUE(find_fields("optimizer.l").empty());
  EXPECT_TRUE(find_fields("").empty());
  EXPECT_TRUE(find_fields("zzz.zzz").empty());
  for (const Field& field : fields()) {
    const std::span<const Field> found = find_fields(field.path());
    EXPECT_TRUE(&field >= found.data() && &field < found.data() + found.size()) << field.path();
    EXPECT_TRUE(field.parent.empty() || !find_fields(field.parent.substr(0, field.parent.find("[]"))).empty());
  }
}

TEST(FieldTable, DefaultsFitTheirTypeAndRange) {
  for (const Field& field : fields()) {
    for (const FieldDefault& fallback : field.defaults) {
      EXPECT_FALSE(read_default(field, fallback).is_null()) << field.path();  // aborts if it cannot be read
    }
    EXPECT_TRUE(field.defaults.empty() || field.when.empty() || field.defaults.back().when.empty()) << field.path();
    EXPECT_FALSE(field.required && !field.defaults.empty()) << field.path();
  }
}

TEST(FieldTable, ConditionsNameChoicesAndFlags) {
  const auto check = [](const Field& field, std::span<const Condition> conditions) {
    for (const Condition& condition : conditions) {
      const Field& chosen = find_fields(condition.path)[0];
      for (const std::string_view value : condition.values) {
        const bool flag = chosen.type == FieldType::kBoolean && (value == "true" || value == "false");
        EXPECT_TRUE(flag || std::any_of(chosen.choices.begin(), chosen.choices.end(),
                                        [&](const Choice& choice) { return choice.name == value; }))
            << field.path() << ": " << condition.path << " " << value;
      }
    }
  };
  for (const Field& field : fields()) {
    check(field, field.when);
    check(field, field.implied_by);
    for (const FieldDefault& fallback : field.defaults) check(field, fallback.when);
    const bool may_have_words = (field.type == FieldType::kPath && !field.choices.empty()) || field.has_words();
    EXPECT_EQ(field.type == FieldType::kChoice || may_have_words, !field.choices.empty()) << field.path();
  }
}

TEST(FieldTable, TextsAreSentences) {
  for (const Field& field : fields()) {
    EXPECT_TRUE(field.text.ends_with(".")) << field.path();
    EXPECT_LE(field.text.size(), 130u) << field.path();
  }
}

// The generated enumerators have the order and the names of the choices.
TEST(FieldTable, EnumeratorsFollowTheirChoices) {
  const auto choice = [](const char* path, auto value) {
    return find_fields(path)[0].choices[static_cast<size_t>(value)].name;
  };
  EXPECT_EQ(choice("model.activation", Activation::kGeluTanh), "gelu_tanh");
  EXPECT_EQ(choice("data.train.format", DataFormat::kSynthetic), "synthetic");
  EXPECT_EQ(choice("data.eval.format", DataFormat::kNpy), "npy");
  EXPECT_EQ(choice("checkpoint.keep_best.mode", Mode::kMax), "max");
  EXPECT_EQ(choice("gpu.model", GpuModel::kA100_80g), "a100-80g");
  EXPECT_EQ(choice("data.train.header", Header::kTrue), "true");
  EXPECT_EQ(choice("tpu.dialect", TpuDialect::kXla2X), "xla-2.x");
}

TEST(FieldTable, MembersOfFieldsWithoutAValue) {
  const Recipe recipe;
  EXPECT_EQ(recipe.model.type, ModelType::kHook);  // unset: hook
  EXPECT_EQ(recipe.comm.start, 1000);              // unset: defaults
  EXPECT_FALSE(recipe.profile);                    // optional section
  EXPECT_EQ(recipe.optimizer.hyper.beta2, 0.999);  // second element of a default
  EXPECT_EQ(recipe.gpu.bucket_cap, 25 << 20);      // size in bytes
  EXPECT_EQ(recipe.log.every, (Length{10, Unit::kSteps}));
  EXPECT_EQ(recipe.scheduler.every, (Length{1, Unit::kEpochs}));  // default of one of the fields that share a path
  EXPECT_EQ(recipe.data.train.delimiter, ',');
}

constexpr const char* kRefresh = "build the target recipe_reference";

TEST(FieldTable, CommittedFilesAreUpToDate) {
  EXPECT_EQ(support::read_text(support::source_path("schema/runner.schema.json")), json_schema()) << kRefresh;
  EXPECT_EQ(support::read_text(support::source_path("docs/recipe.md")), recipe_reference()) << kRefresh;
}

TEST(FieldTable, ReferenceNamesEveryKey) {
  const std::string page = recipe_reference();
  for (const Field& field : fields()) {
    EXPECT_NE(page.find("| `" + std::string(field.name) + "` | "), std::string::npos) << field.path();
  }
}

TEST(InitRecipe, IsAValidRecipe) {
  for (const char* name : {"demo", "my-run_2", "007", "yes", "true", "1e3", "größe und \"mehr\"", "a: b", "-x", "~"}) {
    const ReadResult result = read_recipe_text(init_recipe(name), "new.yaml");
    EXPECT_EQ(result.recipe.name, name);
  }
  EXPECT_TRUE(init_recipe("demo").starts_with("# yaml-language-server: $schema="));
  EXPECT_NE(init_recipe("demo").find("\nname: demo\n"), std::string::npos);
  EXPECT_THROW(init_recipe(""), Error);
  EXPECT_THROW(init_recipe("a\nb"), Error);
}

TEST(FieldTable, AKeyIsWithinItsSections) {
  for (const std::string_view key : {"a", "a.b", "a[0]", "a.b.c"}) EXPECT_TRUE(is_within(key, "a")) << key;
  for (const std::string_view key : {"ab", "b.a", ""}) EXPECT_FALSE(is_within(key, "a")) << key;
}

}  // namespace
}  // namespace runner::schema
