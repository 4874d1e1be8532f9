#include "schema/recipe/explain.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/json.h"

namespace runner::schema {
namespace {

using support::Json;

constexpr const char* kExplained = R"(schema_version: 1
name: ${env:SCHEMA_TEST_NAME}
model: {type: mlp, hidden: [8]}
data: {train: {format: csv, path: d.csv}, batch_size: 4, split: {eval: 0.1}}
optimizer: {type: adamw, lr: 1e-3, groups: [{params: [a], lr: 2}]}
scheduler: {type: linear, warmup: 100 steps}
train: {epochs: 3}
gpu: {memory: 16GiB}
vars: {width: 8, net: {depth: 2}}
)";

ReadResult read() {
  setenv("SCHEMA_TEST_NAME", "from-env", 1);
  ReadResult result = read_recipe_text(kExplained, "r.yaml", std::vector<std::string>{"data.batch_size=8"});
  unsetenv("SCHEMA_TEST_NAME");
  return result;
}

TEST(Explain, TextOfAWrittenNumber) {
  EXPECT_EQ(explain_text(read(), "optimizer.lr"),
            "optimizer.lr = 0.001\n"
            "Learning rate.\n"
            "number, at least 0; default 0.001\n"
            "from: recipe r.yaml:5:30\n");
}

TEST(Explain, TextOfOtherOrigins) {
  const ReadResult result = read();
  EXPECT_EQ(explain_text(result, "data.batch_size"),
            "data.batch_size = 8\nSamples per batch of one process.\ninteger, between 1 and 2147483647, in samples; "
            "required\nfrom: command line\n");
  EXPECT_EQ(explain_text(result, "optimizer.weight_decay"),
            "optimizer.weight_decay = 0.01\nWeight decay; decoupled from the gradient in adamw and lion.\nnumber, at "
            "least 0; default 0.01\nfrom: default\n");
  EXPECT_EQ(explain_text(result, "name"),
            "name = from-env\nName of the run; default: the name of the recipe file without its extension.\ntext; no "
            "default\nfrom: env r.yaml:2:7\n");
  EXPECT_EQ(explain_text(result, "scheduler.warmup"),
            "scheduler.warmup = 100 steps\nLength of the linear warm-up from 0 to the full learning rate.\nlength, "
            "between 0 and 2147483647; no default\nfrom: recipe r.yaml:6:35\n");
}

TEST(Explain, TextOfUnusedKeys) {
  EXPECT_EQ(explain_text(read(), "optimizer.momentum"),
            "optimizer.momentum = not set\nMomentum factor.\nnumber, at least 0; default 0\nfrom: default\nneeds "
            "optimizer.type: sgd or rmsprop\n");
  EXPECT_EQ(explain_text(read(), "tpu.generation"),
            "tpu.generation = not set\nDevice to emulate: memory, throughput and interconnect.\nchoice: v2, v3, v4, "
            "v5e, v5p or v6e; default v3\nfrom: default\n");
}

TEST(Explain, TextNamesEveryConditionThatDoesNotHold) {
  const std::string text = explain_text(read(), "downcast_bf16");
  EXPECT_TRUE(text.ends_with("\nneeds backend: tpu and mixed_precision: bf16\n")) << text;
}

TEST(Explain, TextOfChoicesThatDoNotWorkYet) {
  EXPECT_EQ(explain_text(read(), "sweep"),
            "sweep: Hyperparameter sweep: values to try, one trial each. Not implemented yet.\n");
  EXPECT_NE(explain_json(read(), "sweep").find(" Not implemented yet.\""), std::string::npos);
}

TEST(Explain, TextOfSections) {
  EXPECT_EQ(explain_text(read(), "gpu"),
            "gpu: The emulated GPUs.\n"
            "  gpu.allow_tf32 = false  (default)\n"
            "  gpu.bucket_cap = 25 MiB  (default)\n"
            "  gpu.capture = false  (default)\n"
            "  gpu.launch_blocking = false  (default)\n"
            "  gpu.memory = 16 GiB  (recipe r.yaml:8:15)\n"
            "  gpu.model = a100-40g  (default)\n");
  EXPECT_EQ(explain_text(read(), "vars"),
            "vars: Custom values, used as ${vars.NAME} and available in hooks.\n  vars.net.depth = 2  (recipe "
            "r.yaml:9:31)\n  vars.width = 8  (recipe r.yaml:9:15)\n");
  EXPECT_EQ(explain_text(read(), "vars.width"),
            "vars.width = 8\nCustom values, used as ${vars.NAME} and available in hooks.\nfrom: recipe r.yaml:9:15\n");
}

TEST(Explain, TextOfTheWholeRecipeWithoutAKey) {
  const std::string text = explain_text(read(), "");
  EXPECT_NE(text.find("\ngpu.memory = 16 GiB  (recipe r.yaml:8:15)\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::ssize(read().leaves));
  const Json json = Json::parse(explain_json(read(), ""));
  EXPECT_EQ(json["key"], nullptr);
  EXPECT_EQ(json["value"]["gpu.memory"], "16 GiB");
  EXPECT_EQ(std::ssize(json["value"]), std::ssize(read().leaves));
}

TEST(Explain, JsonHasTheDocumentedKeys) {
  const Json json = Json::parse(explain_json(read(), "optimizer.lr"));
  EXPECT_EQ(json.keys(), (std::vector<std::string>{"key", "value", "type", "default", "unit", "origin", "text"}));
  EXPECT_EQ(json["value"], 0.001);
  EXPECT_EQ(json["default"], 0.001);
  EXPECT_EQ(json["type"], "number");
  EXPECT_EQ(json["unit"], nullptr);
  EXPECT_EQ(json["origin"], Json::parse(R"({"kind": "recipe", "file": "r.yaml", "line": 5})"));
  EXPECT_EQ(json["text"], "Learning rate.");
}

TEST(Explain, JsonOfOtherKeys) {
  const ReadResult result = read();
  const auto json = [&](const char* key) { return Json::parse(explain_json(result, key)); };
  EXPECT_EQ(json("data.batch_size")["origin"], Json::parse(R"({"kind": "command line", "file": null, "line": null})"));
  EXPECT_EQ(json("data.batch_size")["unit"], "samples");
  EXPECT_EQ(json("data.batch_size")["default"], nullptr);
  EXPECT_EQ(json("name")["origin"], Json::parse(R"({"kind": "env", "file": "r.yaml", "line": 2})"));
  EXPECT_EQ(json("optimizer.betas")["value"], Json::parse("[0.9, 0.999]"));
  EXPECT_EQ(json("optimizer.betas")["type"], "list of number");
  EXPECT_EQ(json("optimizer.groups[0].lr")["value"], 2.0);
  EXPECT_EQ(json("optimizer.momentum")["value"], nullptr);
  EXPECT_EQ(json("optimizer.momentum")["default"], 0.0);
  EXPECT_EQ(json("scheduler.warmup")["unit"], "steps");
  EXPECT_EQ(json("eval.every")["value"], "1 epoch");
  EXPECT_EQ(json("eval.every")["default"], "1 epoch");
  EXPECT_EQ(json("eval.every")["origin"]["kind"], "default");
  EXPECT_EQ(json("gpu.memory")["value"], "16 GiB");
  EXPECT_EQ(json("data.split")["value"], Json::parse(R"({"eval": 0.1})"));
  EXPECT_EQ(json("data.split")["type"], "section");
  EXPECT_EQ(json("vars.net")["value"], Json::parse(R"({"depth": 2})"));
  EXPECT_EQ(json("tpu.generation")["default"], "v3");
}

std::string error_of(const std::string& key) {
  try {
    explain_text(read(), key);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.message();
  }
  return "";
}

TEST(Explain, ErrorForAnUnknownKeySuggestsTheNearest) {
  EXPECT_EQ(error_of("optimizer.lrr"), "unknown key optimizer.lrr; did you mean optimizer.lr?");
  EXPECT_EQ(error_of("lr"), "unknown key lr; did you mean optimizer.lr?");
  EXPECT_EQ(error_of("log.x"), "unknown key log.x; keys of log: csv, every, grad_norm, jsonl, tensorboard");
  EXPECT_EQ(error_of("vars.with"), "unknown key vars.with; variables: vars.net.depth, vars.width");
  EXPECT_NE(error_of("optimizer.groups[7].lr]["), "");
  EXPECT_NE(error_of("."), "");
}

}  // namespace
}  // namespace runner::schema
