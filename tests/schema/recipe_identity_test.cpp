#include "schema/recipe/recipe_identity.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/json.h"

namespace runner::schema {
namespace {

using support::Json;

constexpr const char* kOriginal = R"(schema_version: 1
model: {type: mlp, hidden: [8]}
data:
  train: {format: csv, path: d.csv}
  batch_size: 4
optimizer: {type: adamw, lr: 1e-3, weight_decay: 0.02}
train: {epochs: 3}
vars: {b: [1, {c: x}], a: 2}
)";

// The same recipe with other spelling, order, comments, written defaults and variables.
constexpr const char* kTwin = R"(# a comment
vars: {a: 2, b: [1.0e0, {c: "x"}], rate: 0.001}
train:
  epochs: 3.0
  loss: auto
optimizer:
  weight_decay: 2e-2
  betas: [0.9, 0.999]
  type: adamw
  lr: ${vars.rate}
data: {batch_size: 4, train: {path: ./x/../d.csv, format: csv, header: auto}, shuffle: true}
model: {hidden: [8], type: mlp, activation: relu}
scheduler: {}
schema_version: 1
)";

ReadResult read(const std::string& text, std::vector<std::string> overrides = {}, const std::string& file = "r.yaml") {
  return read_recipe_text(text, file, overrides);
}

TEST(RecipeIdentity, CanonicalFormHasOnlyNonDefaultValues) {
  EXPECT_EQ(canonical_form(read(kOriginal)),
            "model\n"
            "data.batch_size = 4\n"
            "data.train.format = \"csv\"\n"
            "data.train.path = \"d.csv\"\n"
            "model.hidden = [8]\n"
            "model.type = \"mlp\"\n"
            "optimizer.type = \"adamw\"\n"
            "optimizer.weight_decay = 0.02\n"
            "schema_version = 1\n"
            "train.epochs = 3\n"
            "vars.a = 2\n"
            "vars.b = [1, {\"c\": \"x\"}]\n");
}

TEST(RecipeIdentity, HashIsStableBetweenVersions) {
  EXPECT_EQ(recipe_hash(read(kOriginal)), "6546dfe23b50344887f8a879fd2067d572c26e37a182cfb59a8a3149ad80b346");
}

TEST(RecipeIdentity, HashIgnoresSpelling) {
  EXPECT_EQ(canonical_form(read(kTwin, {"vars.rate=null", "optimizer.lr=0.001"})),
            canonical_form(read(kOriginal, {"vars.rate=null"})));
  EXPECT_EQ(recipe_hash(read(kOriginal)), recipe_hash(read(kOriginal, {"name=other"}, "folder/other.yaml")));
  EXPECT_EQ(recipe_hash(read(kOriginal)), recipe_hash(read(kOriginal, {"log.every=10 steps", "optimizer.eps=1e-8"})));
}

TEST(RecipeIdentity, HashDependsOnEveryValue) {
  const std::string hash = recipe_hash(read(kOriginal));
  for (const char* change : {"optimizer.lr=0.0010000000000000002", "seed=1", "model.hidden=[8, 8]", "model.freeze=[]",
                             "data.train.path=e.csv", "vars.a=2.5", "vars.a=\"2\"", "log.every=9 steps",
                             "gpu.memory=1 GiB", "optimizer.groups=[{params: [a]}]"}) {
    EXPECT_NE(recipe_hash(read(kOriginal, {change})), hash) << change;
  }
  const std::string split = "data.split.eval=0.5";
  EXPECT_NE(recipe_hash(read(kOriginal, {split})), recipe_hash(read(kOriginal, {split, "train.early_stopping={}"})));
}

TEST(RecipeIdentity, ResolvedFormHasEveryDefault) {
  const Json json = Json::parse(resolved_json(read(kOriginal, {"gpu.memory=16GiB"}, "/folder/r.yaml")));
  EXPECT_EQ(json["optimizer"]["betas"], Json::parse("[0.9, 0.999]"));
  EXPECT_EQ(json["optimizer"]["lr"], 0.001);
  EXPECT_EQ(json["data"]["train"]["path"], "/folder/d.csv");
  EXPECT_EQ(json["data"]["train"]["header"], "auto");
  EXPECT_EQ(json["log"]["every"], "10 steps");
  EXPECT_EQ(json["gpu"]["memory"], "16 GiB");
  EXPECT_EQ(json["vars"]["b"], Json::parse(R"([1, {"c": "x"}])"));
  EXPECT_EQ(json["name"], "r");
  EXPECT_FALSE(json["optimizer"].contains("momentum"));
  EXPECT_TRUE(json["train"]["epochs"].is_integer());
  EXPECT_FALSE(json["optimizer"]["eps"].is_integer());
}

TEST(RecipeIdentity, RelativePathsBecomeAbsolute) {
  const Json json = Json::parse(resolved_json(read(kOriginal, {}, "folder/r.yaml")));
  EXPECT_EQ(json["data"]["train"]["path"], (std::filesystem::current_path() / "folder/d.csv").string());
}

TEST(RecipeIdentity, OriginsHaveEveryLeaf) {
  const ReadResult result = read(kOriginal, {"seed=3"});
  const Json json = Json::parse(origins_json(result));
  EXPECT_EQ(json["optimizer.lr"], Json::parse(R"({"kind": "recipe", "file": "r.yaml", "line": 6, "column": 30})"));
  EXPECT_EQ(json["seed"], Json::parse(R"({"kind": "command line", "file": null, "line": null, "column": null})"));
  EXPECT_EQ(json["data.train.path"],
            Json::parse(R"({"kind": "recipe", "file": "r.yaml", "line": 4, "column": 30, "written": "d.csv"})"));
  EXPECT_EQ(json["threads"], Json::parse(R"({"kind": "default", "file": null, "line": null, "column": null})"));
  EXPECT_EQ(json.size(), result.leaves.size());
}

TEST(RecipeIdentity, FlatSettingsHaveOneRowPerListElement) {
  std::string text;
  for (const FlatSetting& setting : flat_settings(read(kOriginal))) {
    const bool interesting = setting.path.starts_with("vars") || setting.path.starts_with("optimizer.betas") ||
                             setting.path.starts_with("model.hidden");
    if (interesting) text += setting.path + "=" + canonical_text(setting.value) + " ";
  }
  EXPECT_EQ(
      text,
      "model.hidden[0]=8 optimizer.betas[0]=0.9 optimizer.betas[1]=0.999 vars.a=2 vars.b[0]=1 vars.b[1].c=\"x\" ");
}

}  // namespace
}  // namespace runner::schema
