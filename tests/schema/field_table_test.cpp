// That the table says nothing impossible, and that the structs and committed files agree with it.
#include "schema/field_table.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "schema/field_value.h"
#include "schema/init_recipe.h"
#include "schema/json_schema.h"
#include "schema/recipe.h"
#include "schema/recipe_reader.h"
#include "tests/support/temp_folder.h"

namespace runner::schema {
namespace {

TEST(FieldTable, LookUps) {
  EXPECT_GT(fields().size(), 150u);
  ASSERT_EQ(find_fields("optimizer.lr").size(), 1u);
  EXPECT_EQ(find_fields("optimizer.lr")[0].path(), "optimizer.lr");
  EXPECT_EQ(find_fields("data.train.features").size(), 3u);
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
      EXPECT_FALSE(read_default(field, fallback).is_null()) << field.path();  // asserts that it reads
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
    EXPECT_EQ(field.type == FieldType::kChoice, !field.choices.empty()) << field.path();
  }
}

TEST(FieldTable, TextsAreSentences) {
  for (const Field& field : fields()) {
    EXPECT_TRUE(field.text.ends_with(".")) << field.path();
    EXPECT_LE(field.text.size(), 130u) << field.path();
  }
}

// The reader turns the n-th choice into the n-th enumerator.
template <class Enum>
void expect_choices(const char* path, std::initializer_list<std::pair<const char*, Enum>> names) {
  const std::span<const Choice> choices = find_fields(path)[0].choices;
  ASSERT_EQ(choices.size(), names.size()) << path;
  for (const auto& [name, value] : names) EXPECT_EQ(choices[static_cast<size_t>(value)].name, name) << path;
}

TEST(FieldTable, ChoicesStandInTheOrderOfTheirEnum) {
  expect_choices<Backend>("backend", {{"cpu", Backend::kCpu}, {"gpu", Backend::kGpu}, {"tpu", Backend::kTpu}});
  expect_choices<Precision>("mixed_precision",
                            {{"no", Precision::kNo}, {"fp16", Precision::kFp16}, {"bf16", Precision::kBf16}});
  expect_choices<ModelType>("model.type", {{"mlp", ModelType::kMlp},
                                           {"linear", ModelType::kLinear},
                                           {"cnn", ModelType::kCnn},
                                           {"gpt", ModelType::kGpt},
                                           {"encoder", ModelType::kEncoder},
                                           {"hook", ModelType::kHook}});
  expect_choices<Activation>("model.activation", {{"relu", Activation::kRelu},
                                                  {"gelu", Activation::kGelu},
                                                  {"gelu_tanh", Activation::kGeluTanh},
                                                  {"silu", Activation::kSilu},
                                                  {"tanh", Activation::kTanh},
                                                  {"sigmoid", Activation::kSigmoid},
                                                  {"identity", Activation::kIdentity}});
  for (const char* path : {"data.train.format", "data.eval.format"}) {
    expect_choices<DataFormat>(path, {{"csv", DataFormat::kCsv},
                                      {"idx", DataFormat::kIdx},
                                      {"text", DataFormat::kText},
                                      {"npy", DataFormat::kNpy},
                                      {"safetensors", DataFormat::kSafetensors},
                                      {"synthetic", DataFormat::kSynthetic}});
  }
  expect_choices<Missing>("data.train.missing",
                          {{"error", Missing::kError}, {"drop", Missing::kDrop}, {"mean", Missing::kMean}});
  expect_choices<Normalize>(
      "data.normalize",
      {{"none", Normalize::kNone}, {"standard", Normalize::kStandard}, {"min_max", Normalize::kMinMax}});
  expect_choices<OptimizerType>("optimizer.type", {{"sgd", OptimizerType::kSgd},
                                                   {"adam", OptimizerType::kAdam},
                                                   {"adamw", OptimizerType::kAdamW},
                                                   {"rmsprop", OptimizerType::kRmsprop},
                                                   {"adagrad", OptimizerType::kAdagrad},
                                                   {"lion", OptimizerType::kLion},
                                                   {"hook", OptimizerType::kHook}});
  expect_choices<SchedulerType>("scheduler.type", {{"constant", SchedulerType::kConstant},
                                                   {"linear", SchedulerType::kLinear},
                                                   {"cosine", SchedulerType::kCosine},
                                                   {"cosine_restarts", SchedulerType::kCosineRestarts},
                                                   {"polynomial", SchedulerType::kPolynomial},
                                                   {"one_cycle", SchedulerType::kOneCycle},
                                                   {"step", SchedulerType::kStep},
                                                   {"exponential", SchedulerType::kExponential},
                                                   {"plateau", SchedulerType::kPlateau},
                                                   {"hook", SchedulerType::kHook}});
  expect_choices<Loss>("train.loss", {{"auto", Loss::kAuto},
                                      {"cross_entropy", Loss::kCrossEntropy},
                                      {"mse", Loss::kMse},
                                      {"l1", Loss::kL1},
                                      {"huber", Loss::kHuber},
                                      {"bce_with_logits", Loss::kBceWithLogits}});
  expect_choices<OnNan>("train.on_nan", {{"stop", OnNan::kStop}, {"skip", OnNan::kSkip}});
}

constexpr const char* kRefresh = "build the target recipe_reference";

TEST(FieldTable, CommittedFilesAreUpToDate) {
  EXPECT_EQ(support::read_text(RUNNER_SOURCE_DIR "/schema/runner.schema.json"), json_schema()) << kRefresh;
  EXPECT_EQ(support::read_text(RUNNER_SOURCE_DIR "/docs/recipe.md"), recipe_reference()) << kRefresh;
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

}  // namespace
}  // namespace runner::schema
