// What an evaluation copies to the host.
#include "runner/train/loop/evaluator.h"

#include <fstream>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "runner/lua/hook_file.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/temp_folder.h"
#include "tests/train/recording_device.h"

namespace runner::train {
namespace {

class Evaluations : public ::testing::Test {
 protected:
  // Evaluates the untrained model of a recipe. Returns the bytes of outputs that were read.
  size_t bytes_read(const std::string& sections, const std::string& hook = "") {
    std::ofstream(path("hook.lua")) << hook;
    std::ofstream(path("recipe.yaml")) << "schema_version: 1\noptimizer: {type: sgd, lr: 0.1}\ntrain: {steps: 1}\n"
                                       << sections << (hook.empty() ? "" : "hooks: hook.lua\n");
    const schema::Recipe recipe = schema::read_recipe(path("recipe.yaml")).recipe;
    const std::unique_ptr<Hooks> hooks = hook.empty() ? nullptr : lua::hooks_maker()(recipe);
    const data::Data data = data::load(recipe);
    const auto device = std::make_shared<RecordingDevice>(backends::make_cpu_device(2));
    backends::ModelledDevice modelled(device);
    Trainer trainer(recipe, data.encoding, modelled, hooks.get());
    trainer.allocate();
    samples_ = data.eval->size();
    metrics_ = Evaluator(trainer, *data.eval, recipe, hooks.get()).run();
    size_t bytes = 0;
    for (const Event& event : device->events())
      if (event.call == Call::kReadOutput) bytes += event.bytes.size();
    return bytes;
  }
  size_t samples() const { return static_cast<size_t>(samples_); }
  const std::map<std::string, double>& metrics() const { return metrics_; }
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

 private:
  const support::TempFolder folder_;
  std::map<std::string, double> metrics_;
  int64_t samples_ = 0;
};

constexpr size_t kPerSample = 2 * sizeof(float);  // loss and weight

const std::string kClasses = R"(model: {type: linear}
data:
  train: {format: synthetic, samples: 40, features: [6], classes: 100}
  eval: {format: synthetic, samples: 27, features: [6], classes: 100}
  batch_size: 8
)";
const std::string kClassMetrics = "eval: {metrics: [loss, accuracy, top_5, f1_macro]}\n";

TEST_F(Evaluations, OfClassesReadNoOutputs) {
  const size_t bytes = bytes_read(kClasses + kClassMetrics);
  EXPECT_EQ(bytes, samples() * (kPerSample + sizeof(backends::LabelRank)));
}

TEST_F(Evaluations, OfTextReadNoOutputs) {
  std::ofstream(path("text.txt"))
      << "to be or not to be that is the question whether it is nobler in the mind to suffer";
  const size_t bytes = bytes_read("data: {train: {format: text, path: " + path("text.txt") +
                                      ", sequence_length: 5}, split: {eval: 0.5}, batch_size: 3}\n",
                                  R"(local nn = require "nn"
return {model = function(cfg) return nn.Embedding(cfg.outputs, cfg.outputs) end})");
  EXPECT_EQ(bytes, samples() * (kPerSample + 5 * sizeof(backends::LabelRank)));
}

TEST_F(Evaluations, ReadTheOutputsForMetricsOverTheWholeSet) {
  const size_t bytes = bytes_read(kClasses + kClassMetrics, R"(local function largest(row)
  local best = 1
  for i, value in ipairs(row) do if value > row[best] then best = i end end
  return best - 1
end
return {metrics = {hits = function(predictions, targets)
  local hits = 0
  for i, row in ipairs(predictions) do if largest(row) == targets[i] then hits = hits + 1 end end
  return hits / #predictions
end}})");
  EXPECT_EQ(bytes, samples() * (kPerSample + sizeof(backends::LabelRank) + 100 * sizeof(float)));
  EXPECT_EQ(metrics().at("hits"), metrics().at("accuracy"));
}

TEST_F(Evaluations, OfTargetsReadTheOutputs) {
  const size_t bytes = bytes_read(R"(model: {type: linear}
data: {train: {format: synthetic, samples: 40, features: [6], targets: 1}, split: {eval: 0.5}, batch_size: 8}
)");
  EXPECT_EQ(bytes, samples() * (kPerSample + sizeof(float)));
}

// Padding counts in no metric, to the bit.
TEST_F(Evaluations, ArePaddedWithoutAnEffect) {
  const std::string step = R"(local nn = require "nn"
return {evaluation_step = function(acc, batch)
  local outputs = acc.model(batch.features)
  return {predictions = outputs, loss = nn.cross_entropy(outputs, batch.labels, {reduction = "none"}),
          own = outputs:sum(2), right = (outputs:argmax():eq(batch.labels) * batch.mask):sum() / batch.mask:sum()}
end,
metrics = {count = function(predictions) return #predictions end}})";
  for (const std::string& hook : {std::string(), step}) {
    const auto evaluate = [&](const std::string& pad) {
      bytes_read(kClasses + "eval: {metrics: [loss, accuracy, top_5, f1_macro], pad_last: " + pad + "}\n", hook);
      return metrics();
    };
    const std::map<std::string, double> plain = evaluate("false"), padded = evaluate("true");
    EXPECT_EQ(plain, padded);
    EXPECT_EQ(plain.size(), hook.empty() ? 4u : 7u);
  }
}

TEST_F(Evaluations, LeavePaddingOutOfTheLossesOfModules) {
  const auto loss = [&](const char* pad) {
    bytes_read(kClasses + "eval: {metrics: [loss], pad_last: " + pad + "}\n", R"(local nn = require "nn"
return {evaluation_step = function(acc, batch)
  local outputs = acc.model(batch.features)
  return {predictions = outputs, loss = nn.cross_entropy(outputs, batch.labels)}
end})");
    return metrics().at("loss");
  };
  EXPECT_NEAR(loss("true"), loss("false"), 1e-6);
}

TEST_F(Evaluations, RejectScalarsThatIncludePadding) {
  const auto error = [&](const std::string& more) -> std::string {
    try {
      bytes_read(kClasses + "eval: {pad_last: true}\n", R"(local nn = require "nn"
return {evaluation_step = function(acc, batch)
  local outputs = acc.model(batch.features)
  local losses = nn.cross_entropy(outputs, batch.labels, {reduction = "none"})
  return {predictions = outputs, )" + more + "}\nend}");
    } catch (const Error& thrown) {
      return thrown.message();
    }
    return "";
  };
  EXPECT_EQ(error("loss = losses:mean()"),
            "eval.pad_last: the loss is a scalar that includes padding; return one value per sample, or use "
            "batch.mask or a loss of nn, which leaves padding out");
  EXPECT_EQ(error("sum = outputs:sum()").substr(0, 43), "eval.pad_last: the metric sum is a scalar t");
  EXPECT_EQ(error("one = nn.tensor{1}:sum(), losses = losses * 2"), "");
}

TEST_F(Evaluations, DropTheShortBatch) {
  bytes_read(kClasses + "eval: {metrics: [loss], drop_last: true}\n",
             "return {metrics = {count = function(predictions) return #predictions end}}");
  EXPECT_EQ(metrics().at("count"), 24);  // of 27, in batches of 8
}

}  // namespace
}  // namespace runner::train
