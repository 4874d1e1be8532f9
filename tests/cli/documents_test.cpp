// JSON documents, whose keys and types are a contract (docs/cli.md).
#include "runner/report/documents.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/diagnostic.h"
#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"
#include "tests/support/json.h"

namespace runner::cli::testing {
namespace {

using support::Json;

// Expects that every key of `wanted` is present with the type of its example.
void expect_shape(const Json& document, const Json& wanted, const std::string& where = "document") {
  for (const std::string& key : wanted.keys()) {
    ASSERT_TRUE(document.contains(key)) << where << " lacks " << key << ": " << document.dump();
    EXPECT_EQ(document[key].type(), wanted[key].type()) << where << "." << key;
  }
}

class Documents : public ::testing::Test {
 protected:
  Json run(const std::string& command, int exit_code = 0) {
    const Result result = run_command("runner " + command, folder_.path());
    EXPECT_EQ(result.exit_code, exit_code) << command << '\n' << result.err;
    return Json::parse(result.out);
  }
  void with_sample_store() { make_sample_store(folder_.path() / "runner.db"); }

  Folder folder_;
};

constexpr const char* kTiny = R"(schema_version: 1
name: tiny
model: {type: linear}
data: {train: {format: synthetic, samples: 40, features: [4], classes: 2}, split: {eval: 0.2}, batch_size: 8}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 2}
log: {every: 1 step}
)";

TEST(RunDocument, NanIsNull) {
  train::RunResult result;
  result.run = "0f3k2m9x7q";
  result.metrics = {{"train/loss", {NAN, -INFINITY, 2}}};
  result.error = train::RunError{"bad \xFF bytes", "", 0, ""};
  const Json document = Json::parse(report::run_document(result));
  EXPECT_EQ(document["metrics"]["train/loss"], Json::parse(R"({"last": null, "min": null, "max": 2.0})"));
  EXPECT_EQ(document["error"], Json::parse(R"({"message": "bad \uFFFD bytes", "file": null, "line": null})"));
}

TEST_F(Documents, ExecAndResume) {
  write_text(folder_.path() / "tiny.yaml", kTiny);
  const Json wanted = Json::parse(R"({
    "run": "", "name": "", "status": "", "exit_code": 0, "backend": "", "num_processes": 1, "epochs": 1,
    "optimizer_steps": 1, "skipped_steps": 0, "samples": 1, "seconds": 0.1, "first_step_seconds": 0.1,
    "metrics": {}, "states": [], "warnings": [], "error": null})");
  const Json first = run("exec tiny.yaml --json");
  expect_shape(first, wanted);
  EXPECT_EQ(first["status"], "done");
  EXPECT_EQ(first["optimizer_steps"], 8);
  EXPECT_EQ(first["samples"], 64);
  EXPECT_EQ(first["states"].size(), 1U);
  for (const char* name : {"train/loss", "train/lr", "eval/loss", "eval/accuracy"}) {
    ASSERT_TRUE(first["metrics"].contains(name)) << name;
    expect_shape(first["metrics"][name], Json::parse(R"({"last": 0.5, "min": 0.5, "max": 0.5})"), name);
  }
  EXPECT_EQ(run("resume tiny --json"), first);  // a finished run prints the same document

  const Json longer = run("resume tiny train.epochs=3 --json");
  expect_shape(longer, wanted);
  EXPECT_EQ(longer["run"], first["run"]);
  EXPECT_EQ(longer["optimizer_steps"], 12);
  EXPECT_EQ(run("metrics tiny train/loss --json")["points"].size(), 12U);

  const Json shown = run("show tiny --json");
  EXPECT_EQ(shown["params"]["train.epochs"], 3);
  EXPECT_EQ(shown["recipe"], kTiny);
  EXPECT_EQ(shown["origins"]["train.epochs"]["kind"], "command line");
  EXPECT_EQ(shown["origins"]["optimizer.lr"],
            Json::parse(R"({"kind": "recipe", "file": "tiny.yaml", "line": 5, "column": 28})"));
  EXPECT_EQ(shown["history"].size(), 2U);
  EXPECT_EQ(shown["summary"]["optimizer_steps"], 12);
}

TEST_F(Documents, FailedExec) {
  write_text(folder_.path() / "bad.yaml", "schema_version: 1\nnmae: x\n");
  const Json document = run("exec bad.yaml --json", 2);
  expect_shape(document, Json::parse(R"({
    "run": null, "name": null, "status": "", "exit_code": 2, "backend": null, "epochs": 0, "metrics": {},
    "states": [], "warnings": [], "error": {}, "errors": []})"));
  EXPECT_EQ(document["status"], "failed");
  EXPECT_EQ(document["exit_code"], 2);
  expect_shape(document["error"], Json::parse(R"({"message": "", "file": "", "line": 1})"), "error");
  EXPECT_EQ(document["error"]["file"], "bad.yaml");
  EXPECT_GT(document["errors"].size(), 1U);

  EXPECT_EQ(run("exec --json", 2)["error"]["message"], "exec: missing argument RECIPE; see `runner exec --help`");
  EXPECT_EQ(run("resume nothing --json", 5)["status"], "failed");
  EXPECT_EQ(run("fork @last seed=2 --json", 5)["error"]["file"], nullptr);
}

TEST_F(Documents, FailuresHaveAnErrorKey) {
  with_sample_store();
  for (const auto& [command, exit_code] : std::vector<std::pair<std::string, int>>{{"show nothing", 3},
                                                                                   {"metrics wine eval/los", 3},
                                                                                   {"states nothing", 3},
                                                                                   {"diff wine nothing", 3},
                                                                                   {"sql 'DELETE FROM run'", 2},
                                                                                   {"export wine", 2},
                                                                                   {"frobnicate", 2},
                                                                                   {"ls --frobnicate", 2},
                                                                                   {"plan no-such.yaml", 2},
                                                                                   {"ls --db /no/such", 5},
                                                                                   {"explain no-such.yaml seed", 2}}) {
    const Json document = run(command + " --json", exit_code);
    EXPECT_EQ(document["exit_code"], exit_code) << command;
    ASSERT_EQ(document["error"].type(), "object") << command;
    for (const char* key : {"message", "file", "line"}) EXPECT_TRUE(document["error"].contains(key)) << command;
    EXPECT_EQ(document["error"]["message"].type(), "string") << command;
  }
}

TEST_F(Documents, Ls) {
  with_sample_store();
  const Json runs = run("ls --json");
  ASSERT_EQ(runs.size(), 3U);
  for (const Json& row : runs.items()) {
    expect_shape(row, Json::parse(R"({"run": "", "name": "", "status": "", "created": "", "backend": ""})"), "run");
  }
  EXPECT_EQ(runs[0]["run"], "0000000ccc");  // newest first
  EXPECT_EQ(runs[0]["status"], "crashed");
  EXPECT_EQ(runs[1]["status"], "failed");
  EXPECT_EQ(runs[1]["parent"], "0000000aaa");
  EXPECT_EQ(runs[2]["parent"], nullptr);
  EXPECT_EQ(runs[2]["tags"], Json::parse(R"(["baseline"])"));
  EXPECT_EQ(run("ls --limit 1 --json").size(), 1U);
}

TEST_F(Documents, States) {
  with_sample_store();
  const Json states = run("states wine --json");
  ASSERT_EQ(states.size(), 2U);
  expect_shape(states[0], Json::parse(R"({"state": 1, "step": 1, "epoch": 1, "bytes": 1, "pinned": false, "reason": "",
                               "run": "", "created": "", "metrics": {}})"),
               "state");
  EXPECT_EQ(states[0]["step"], 3);
  EXPECT_EQ(states[1]["pinned"], true);
  EXPECT_EQ(run("states 0000000bbb --json"), Json::parse("[]"));
}

TEST_F(Documents, Metrics) {
  with_sample_store();
  EXPECT_EQ(run("metrics wine train/loss --json"),
            Json::parse(R"({"run": "0000000aaa", "name": "train/loss", "points": [[1, 0.75], [2, null], [3, 0.1]]})"));
  const Json metrics = run("metrics wine --json");
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[1]["name"], "train/loss");
  EXPECT_EQ(metrics[1]["points"], 3);
  EXPECT_EQ(metrics[1]["nan_count"], 1);
  EXPECT_EQ(metrics[1]["min"], 0.1);
  EXPECT_EQ(metrics[1]["mean"], 0.425);
}

TEST_F(Documents, Show) {
  with_sample_store();
  const Json document = run("show wine --json");
  expect_shape(document, Json::parse(R"({
    "run": "", "name": "", "status": "", "exit_code": 0, "reason": null, "created": "", "ended": "", "seed": 1,
    "host": "", "cpu_features": "", "kernels": {}, "recipe_hash": "", "recipe": "", "params": {}, "origins": {},
    "history": [], "metrics": [], "states": [], "events": [], "notes": [], "summary": {}})"));
  EXPECT_EQ(document["params"], Json::parse(R"({"optimizer.lr": 0.001, "seed": 42})"));
  EXPECT_EQ(document["origins"]["seed"]["line"], 3);
  EXPECT_EQ(document["kernels"]["matmul f32"], "onednn");
  EXPECT_EQ(document["notes"][0]["text"], "first try,\nby hand");
  EXPECT_EQ(document["events"][0]["data"]["step"], 3);
}

TEST_F(Documents, Sql) {
  with_sample_store();
  EXPECT_EQ(run("sql \"SELECT run, 1 AS x, 2.5 AS x, NULL AS n, x'00ff' AS b FROM runs WHERE name = 'wine'\" --json"),
            Json::parse(R"([{"run": "0000000aaa", "x": 1, "x_2": 2.5, "n": null, "b": "00ff"}])"));
}

TEST_F(Documents, Diff) {
  with_sample_store();
  const Json document = run("diff wine 0000000bbb --json");
  EXPECT_EQ(document["params"], Json::parse(R"({"optimizer.lr": [0.001, 0.5]})"));
  EXPECT_EQ(document["environment"], Json::parse("{}"));
  EXPECT_EQ(document["metrics"]["train/loss"], Json::parse("[0.1, null]"));
}

TEST_F(Documents, CheckAndExplainAndPlan) {
  write_text(folder_.path() / "tiny.yaml", kTiny);
  write_text(folder_.path() / "bad.yaml", std::string(kTiny) + "sede: 1\n");
  EXPECT_EQ(run("check tiny.yaml --json"), Json::parse(R"({"ok": true, "errors": [], "warnings": []})"));
  const Json bad = run("check bad.yaml --json", 2);
  EXPECT_EQ(bad["ok"], false);
  ASSERT_EQ(bad["errors"].size(), 1U);
  expect_shape(bad["errors"][0],
               Json::parse(R"({"file": "", "line": 1, "column": 1, "key": "", "message": "", "hint": ""})"), "error");
  EXPECT_EQ(bad["error"]["line"], 8);

  const Json explained = run("explain tiny.yaml optimizer.lr optimizer.lr=0.5 --json");
  expect_shape(explained, Json::parse(R"({"key": "", "value": 0.5, "type": "", "origin": {}, "text": ""})"));
  EXPECT_EQ(explained["origin"]["kind"], "command line");

  const Json plan = run("plan tiny.yaml --json --batches --epochs 2");
  expect_shape(plan, Json::parse(R"({"num_processes": 1, "global_batch_size": 8, "steps_per_epoch": 4,
                                     "optimizer_steps_per_epoch": 4, "epochs": []})"));
  ASSERT_EQ(plan["epochs"].size(), 2U);
  EXPECT_EQ(plan["epochs"][1]["epoch"], 1);
  EXPECT_EQ(plan["warnings"], Json::parse("[]"));
  EXPECT_EQ(plan["epochs"][0]["batches"][0].size(), 4U);
  EXPECT_EQ(plan["epochs"][0]["padding"], Json::parse("[[[], [], [], []]]"));
  EXPECT_NE(plan["epochs"][0]["batches"], plan["epochs"][1]["batches"]);
  const Json short_plan = run("plan tiny.yaml scheduler.type=linear scheduler.warmup='2 steps' --json");
  EXPECT_FALSE(short_plan.contains("epochs"));
  const int64_t steps = short_plan["optimizer_steps"].integer();
  EXPECT_EQ(steps % 4, 0);
  const double lr = run("explain tiny.yaml optimizer.lr --json")["value"].number();
  EXPECT_EQ(short_plan["learning_rate"],
            Json::parse(fmt::format(R"({{"first": 0.0, "highest": {}, "highest_step": 3, "last": {}}})", lr,
                                    lr * static_cast<double>(1) / static_cast<double>(steps - 2))));
  const Json cycle = run("plan tiny.yaml optimizer.lr=0.25 scheduler='{type: one_cycle, max_lr: 1}' --json");
  EXPECT_EQ(cycle["warnings"], Json::parse("[\"command line:1:14: optimizer.lr has no effect: with one_cycle, "
                                           "scheduler.max_lr is the peak learning rate\"]"));
  EXPECT_EQ(short_plan["parameters"], short_plan["trainable_parameters"]);
  EXPECT_GE(short_plan["memory_bytes"].integer(), 4 * short_plan["parameters"].integer());
}

TEST_F(Documents, CommandsWithoutOutputOfTheirOwn) {
  with_sample_store();
  EXPECT_EQ(run("init --json"), Json::parse(R"({"recipe": "recipe.yaml", "schema": "runner.schema.json"})"));
  EXPECT_EQ(run("tag wine best --json"), Json::parse(R"({"run": "0000000aaa", "tag": "best"})"));
  EXPECT_EQ(run("note wine 'so so' --json"), Json::parse(R"({"run": "0000000aaa", "note": "so so"})"));
  EXPECT_EQ(run("rm wine digits --json"), Json::parse(R"({"removed": ["0000000aaa", "0000000ccc"], "purged": false})"));
  EXPECT_EQ(run("restore wine --json"), Json::parse(R"({"restored": ["0000000aaa"]})"));
  EXPECT_TRUE(run("gc --json")["bytes"].is_integer());
}

TEST_F(Documents, EvalAndPredictAndVerify) {
  write_text(folder_.path() / "points.csv", "x,label\n0,low\n1,low\n8,high\n9,high\n");
  write_text(folder_.path() / "r.yaml",
             "schema_version: 1\nname: points\nmodel: {type: linear}\n"
             "data: {train: {format: csv, path: points.csv, label: label}, split: {eval: 0.5}, batch_size: 2}\n"
             "optimizer: {type: sgd, lr: 0.1}\ntrain: {epochs: 3}\n");
  const Json trained = run("exec r.yaml --json");
  const Json evaluated = run("eval points points.csv --json");
  EXPECT_EQ(evaluated["run"], trained["run"]);
  EXPECT_EQ(evaluated["state"], trained["states"].items().back());
  expect_shape(evaluated["metrics"], Json::parse(R"({"loss": 0.5, "accuracy": 0.5})"), "metrics");
  const Json own = run("eval points --json");
  EXPECT_EQ(own["metrics"]["loss"], trained["metrics"]["eval/loss"]["last"]);

  const Json predicted = run("predict points points.csv --json");
  EXPECT_EQ(predicted["samples"], 4);
  EXPECT_EQ(predicted["files"], nullptr);
  EXPECT_EQ(predicted["classes"], Json::parse(R"(["high", "low"])"));
  ASSERT_EQ(predicted["outputs"].size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const bool high = predicted["outputs"][i][0].number() > predicted["outputs"][i][1].number();
    EXPECT_EQ(predicted["predictions"][i], high ? "high" : "low");
  }

  const Json verdict = run("verify-resume r.yaml --kills 1 --json");
  EXPECT_EQ(verdict["exact"], true);
  expect_shape(verdict, Json::parse(R"({"optimizer_steps": 3, "killed_at": [], "resumed_from": [], "tensors": 1,
                                        "bytes": 1, "points": 1, "batches": 1, "differences": []})"));
  EXPECT_EQ(verdict["killed_at"].size(), 1U);
}

TEST_F(Documents, Doctor) {
  const Json document = run("doctor --json");
  expect_shape(document, Json::parse(R"({"version": "", "compiler": "", "build": "", "system": "", "cpu_features": "",
                                         "cores": 1, "core_ids": [0], "memory_bytes": 1, "kernels": {}, "measured": {},
                                         "sqlite": "", "libpng": "", "libjpeg_turbo": "",
                                         "optional": {"sentencepiece": true, "mpi": {}}, "store": {}})"));
  for (const char* key : {"f32_gflops", "bf16_gflops", "copy_gb_per_s"})
    EXPECT_GT(document["measured"][key].number(), 0) << key;
  EXPECT_EQ(document["store"]["status"], "none yet");
}

TEST_F(Documents, Export) {
  write_text(folder_.path() / "tiny.yaml", kTiny);
  const Json trained = run("exec tiny.yaml --json");
  const Json document = run("export tiny --model m.safetensors --metrics m.json --json");
  EXPECT_EQ(document["run"], trained["run"]);
  EXPECT_EQ(document["state"], trained["states"].items().back());
  EXPECT_EQ(document["model"], "m.safetensors");
  const Json metrics = Json::parse(read_text(folder_.path() / "m.json"));
  EXPECT_EQ(metrics["metrics"]["train/loss"].size(), 8U);
  const std::string model = read_text(folder_.path() / "m.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, model.data(), sizeof(length));
  const Json header = Json::parse(model.substr(sizeof(length), length));
  EXPECT_TRUE(header.contains("0.bias")) << header;
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
  EXPECT_EQ(header["__metadata__"]["classes"], R"(["0","1"])");
}

}  // namespace
}  // namespace runner::cli::testing
