// Secret environment variables: which they are, their digests, and what a recipe records of them.
#include "schema/base/secrets.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "schema/recipe/recipe_identity.h"
#include "schema/recipe/recipe_warnings.h"
#include "tests/support/json.h"

namespace runner::schema {
namespace {

using support::Json;

constexpr const char* kRecipe = R"(schema_version: 1
name: run of ${env:RS_TEST_TOKEN}
secret: [RS_TEST_FOLDER]
model: {type: mlp, hidden: ["${env:RS_TEST_KEY}", 4]}
data:
  train: {format: csv, path: "${env:RS_TEST_FOLDER}/d.csv"}
  batch_size: ${env:RS_TEST_KEY}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
vars:
  text: Bearer ${env:RS_TEST_TOKEN}
  both: <${vars.text}> ${env:RS_TEST_PLAIN}
  list: [true, "${env:RS_TEST_TOKEN}", "${vars.plain}"]
  plain: 010 is text
  literal: $${secret:RS_TEST_TOKEN:0} $$${
  mixed: $${secret:a} ${env:RS_TEST_TOKEN} $${secret:b} $${
)";

constexpr const char* kToken = "zebra-7-quartz";

std::string reference(const std::string& name, const std::string& value) {
  return "${secret:" + name + ":" + secret_digest(name, value) + "}";
}

TEST(HideSecrets, ReplacesMillionsInOnePass) {
  const std::string hidden = remember_secret("RS_TEST_MANY_TOKEN", "quagga");
  constexpr size_t kMany = 1 << 20;
  std::string text;
  for (size_t i = 0; i < kMany; ++i) text += "quagga";
  const std::string result = hide_secrets(text);
  EXPECT_EQ(result.size(), kMany * hidden.size());
  EXPECT_TRUE(result.starts_with(hidden + hidden));
}

class Secrets : public ::testing::Test {
 protected:
  Secrets() {
    set("TOKEN", kToken);
    set("FOLDER", "vault-of-zebras");
    set("KEY", "8");
    set("PLAIN", "open");
  }
  ~Secrets() override {
    for (const char* name : {"TOKEN", "FOLDER", "KEY", "PLAIN"}) unset(name);
  }

  static void set(const std::string& name, const char* value) { ::setenv(("RS_TEST_" + name).c_str(), value, 1); }
  static void unset(const std::string& name) { ::unsetenv(("RS_TEST_" + name).c_str()); }

  static ReadResult read() { return read_recipe_text(kRecipe, "r.yaml"); }

  static std::string error_of(const std::string& resolved) {
    try {
      read_resolved(resolved);
    } catch (const RecipeError& error) {
      return render_text(error.diagnostics());
    }
    return "";
  }
};

TEST_F(Secrets, AreKnownByName) {
  for (const char* name : {"API_TOKEN", "aws_secret_access_key", "PGPASSWORD", "MY_KEYS"})
    EXPECT_TRUE(is_secret_name(name)) << name;
  for (const char* name : {"HOME", "DATA_DIR", "TOK", ""}) EXPECT_FALSE(is_secret_name(name)) << name;
}

TEST_F(Secrets, DigestIsTheStartOfASha256) {
  EXPECT_EQ(secret_digest("NAME", "value"), "fde5a6af544850d6") << "printf NAME=value | sha256sum";
}

TEST_F(Secrets, AreHiddenInTextsUnlessTheyAreShort) {
  remember_secret("RS_TEST_A", "ibex-7");
  remember_secret("RS_TEST_B", "ibex-7 and yak");
  remember_secret("RS_TEST_C", "yak");
  EXPECT_EQ(hide_secrets("ibex-7, ibex-7 and yak, yak"),
            reference("RS_TEST_A", "ibex-7") + ", " + reference("RS_TEST_B", "ibex-7 and yak") + ", yak");
}

TEST_F(Secrets, AreValuesOfTheRecipeButNotOfItsRecord) {
  const ReadResult result = read();
  const std::string token = reference("RS_TEST_TOKEN", kToken), key = reference("RS_TEST_KEY", "8");
  const std::string folder = reference("RS_TEST_FOLDER", "vault-of-zebras");
  EXPECT_EQ(result.recipe.name, std::string("run of ") + kToken);
  EXPECT_EQ(result.recipe.data.batch_size, 8);
  EXPECT_EQ(*result.find("vars.both")->value.text(), std::string("<Bearer ") + kToken + "> open");

  const auto resolved = Json::parse(resolved_json(result));
  EXPECT_EQ(resolved["name"], "run of " + token);
  EXPECT_EQ(resolved["data"]["batch_size"], key);
  EXPECT_EQ(resolved["model"]["hidden"][0], key);
  EXPECT_EQ(resolved["model"]["hidden"][1], 4);
  EXPECT_EQ(resolved["vars"]["both"], "<Bearer " + token + "> open");
  EXPECT_EQ(resolved["vars"]["list"][0], true);
  EXPECT_TRUE(resolved["data"]["train"]["path"].text().ends_with("/" + folder + "/d.csv"));
  EXPECT_EQ(Json::parse(origins_json(result))["data.train.path"]["written"], folder + "/d.csv");
  for (const std::string& text : {resolved_json(result), origins_json(result), canonical_form(result)}) {
    EXPECT_EQ(text.find("zebra"), std::string::npos) << text;
  }
  for (const FlatSetting& setting : flat_settings(result))
    EXPECT_EQ(display_text(setting.value).find("zebra"), std::string::npos) << setting.path;
}

TEST_F(Secrets, AreReadAgainFromTheRecord) {
  const ReadResult before = read();
  const ReadResult after = read_resolved(resolved_json(before));
  for (const Leaf& leaf : before.leaves) {
    if (leaf.field->type == FieldType::kPath) continue;  // absolute in the record
    ASSERT_NE(after.find(leaf.path), nullptr) << leaf.path;
    EXPECT_EQ(after.find(leaf.path)->value, leaf.value) << leaf.path;
  }
  EXPECT_TRUE(after.recipe.data.train.path.ends_with("/vault-of-zebras/d.csv"));
  EXPECT_EQ(*after.find("vars.literal")->value.text(), "${secret:RS_TEST_TOKEN:0} $${");
  EXPECT_EQ(*after.find("vars.mixed")->value.text(), std::string("${secret:a} ") + kToken + " ${secret:b} ${");
  EXPECT_EQ(resolved_json(after), resolved_json(before));
}

TEST_F(Secrets, ThatAreMissingOrDifferInTheRecordAreErrorsOnce) {
  const std::string resolved = resolved_json(read());
  set("TOKEN", "another-value");
  EXPECT_NE(error_of(resolved).find("the secret environment variable RS_TEST_TOKEN has another value than when "
                                    "the run started [changed-secret]"),
            std::string::npos)
      << error_of(resolved);
  unset("TOKEN");
  const std::string missing = error_of(resolved);
  const size_t at = missing.find("RS_TEST_TOKEN is not set; it is secret");
  EXPECT_NE(at, std::string::npos) << missing;
  EXPECT_EQ(missing.find("is not set", at + 40), std::string::npos) << missing;
}

TEST_F(Secrets, AreNotInMessages) {
  set("TOKEN", "zebra-not-a-number");
  const std::string recipe = std::string(kRecipe) + "seed: x${env:RS_TEST_TOKEN}\nbackend: ${env:RS_TEST_TOKEN}\n";
  try {
    read_recipe_text(recipe, "r.yaml");
    ADD_FAILURE();
  } catch (const RecipeError& error) {
    EXPECT_EQ(error.diagnostics().size(), 2u) << error.what();
    EXPECT_EQ(std::string(error.what()).find("zebra"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("${secret:RS_TEST_TOKEN:"), std::string::npos) << error.what();
  }
}

TEST_F(Secrets, ReferencesAreErrorsInOtherRecipes) {
  const std::string recipe = "schema_version: 1\nname: " + reference("RS_TEST_TOKEN", kToken) + "\n";
  try {
    read_recipe_text(recipe, "r.yaml");
    ADD_FAILURE();
  } catch (const RecipeError& error) {
    EXPECT_NE(std::string(error.what()).find("} is neither a variable nor an environment variable"), std::string::npos);
  }
}

TEST_F(Secrets, ListedNamesThatAreNotReadAreWarnings) {
  EXPECT_EQ(recipe_warnings(read()), std::vector<std::string>());
  const ReadResult misspelt = read_recipe_text(kRecipe, "r.yaml", std::vector<std::string>{"secret=[RS_TEST_FOLDERS]"});
  EXPECT_EQ(recipe_warnings(misspelt),
            std::vector<std::string>{
                "command line:1:8: secret: the recipe does not read the environment variable 'RS_TEST_FOLDERS'"});
  const ReadResult absent = read_recipe_text(kRecipe, "r.yaml",
                                             std::vector<std::string>{"vars={a: '${env:RS_TEST_ABSENT:1}'}", "name=r",
                                                                      "secret=[RS_TEST_FOLDER, RS_TEST_ABSENT]"});
  EXPECT_EQ(recipe_warnings(absent), std::vector<std::string>());
}

}  // namespace
}  // namespace runner::schema
