// Trainings of transformers with dropout give the same results however they are divided into batches, among ranks, by
// an interruption, or by padding.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/backends/support/on_threads.h"
#include "tests/support/bytes.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using Words = std::vector<std::string>;

// SGD, because the steps of Adam enlarge the rounding of gradients that are 0, such as those of the biases of keys.
std::string recipe_of(const char* name, const char* model, const char* data) {
  return fmt::format(R"(schema_version: 1
name: {}
seed: 3
model: {{{}, layers: 2, heads: 2, width: 8, dropout: 0.1}}
data:
  {}
  batch_size: 8
optimizer: {{type: sgd, lr: 0.2, momentum: 0.9}}
train: {{epochs: 2, clip_grad_norm: 1}}
log: {{every: 1 step}}
)",
                     name, model, data);
}

const std::string kGpt = recipe_of("gpt", "type: gpt", "train: {format: text, path: text.txt, sequence_length: 8}");
const std::string kEncoder = recipe_of("encoder", "type: encoder, head: classification, context: 32",
                                       R"(train: {format: tsv, path: table.tsv, text: [a, b], label: y}
  tokens: {tokenizer: characters, max_length: 32})");
// Rows of the table as texts, each padded at its end.
const std::string kGptOfRows = recipe_of("rows", "type: gpt, context: 32",
                                         R"(train: {format: tsv, path: table.tsv, text: [a, b]}
  tokens: {tokenizer: characters, max_length: 32})");

constexpr int64_t kSamples = 37, kStepsPerEpoch = 5;  // the last batch of an epoch is short

void on_ranks(int size, const std::function<void(backends::ProcessGroup& ranks)>& body) {
  backends::testing::on_threads(size, [&](backends::SharedMemoryGroup& ranks) { body(ranks); });
}

struct Trained {
  std::vector<std::pair<int64_t, double>> losses, norms;
  std::map<std::string, std::vector<float>> weights;  // and momenta

  bool operator==(const Trained&) const = default;
};

class TransformerRuns : public RunFixture {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; std::ssize(text) <= 8 * kSamples; ++i) text += fmt::format("{} and {} make {}. ", i, 2 * i, 3 * i);
    write("text.txt", text.substr(0, 8 * kSamples + 1));
    std::string table = "a\tb\ty\n";
    for (int i = 0; i < kSamples; ++i)
      table += fmt::format("{}\t{}{}\t{}\n", i, std::string(static_cast<size_t>(i * 5 % 17), 'x'), i * i, i % 3);
    write("table.tsv", table);
  }

  // Uses threads as ranks if the overrides say so.
  RunResult run(const std::string& recipe, Options options) {
    const bool has_ranks = std::ranges::any_of(options.overrides, [](const std::string& each) {
      return each.starts_with("num_processes=") && each != "num_processes=1";
    });
    if (has_ranks) options.transport = on_ranks;
    return train(recipe, options);
  }

  // The newest run of a store.
  Trained trained(const std::string& store) {
    Trained result{.losses = points("train/loss", store), .norms = points("train/grad_norm", store), .weights = {}};
    for (const auto& [name, bytes] : last_state(store))
      if (name.starts_with("model/") || name.starts_with("optimizer/"))
        result.weights[name] = support::numbers_of<float>(bytes);
    return result;
  }

  Trained trained_with(const std::string& recipe, const Words& overrides) {
    const std::string store = fmt::format("{}.db", ++runs_);
    EXPECT_EQ(run(recipe, {.store = store, .overrides = overrides}).exit_code, 0);
    return trained(store);
  }

  static void expect_near(const Trained& got, const Trained& want) {
    const auto near = [](const auto& a, const auto& b, const char* what) {
      ASSERT_EQ(a.size(), b.size()) << what;
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].first, b[i].first) << what;
        EXPECT_NEAR(a[i].second, b[i].second, kRounding) << what << " at step " << a[i].first;
      }
    };
    near(got.losses, want.losses, "loss");
    near(got.norms, want.norms, "gradient norm");
    ASSERT_EQ(got.weights.size(), want.weights.size());
    for (const auto& [name, values] : want.weights) {
      ASSERT_EQ(got.weights.at(name).size(), values.size()) << name;
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(got.weights.at(name)[i], values[i], kRounding) << name << ' ' << i;
    }
  }

  // The largest difference of the losses of a step.
  static double loss_distance(const Trained& a, const Trained& b) {
    EXPECT_EQ(a.losses.size(), b.losses.size());
    double most = 0;
    for (size_t i = 0; i < a.losses.size(); ++i)
      most = std::max(most, std::fabs(a.losses[i].second - b.losses[i].second));
    return most;
  }

  // Of sums of f32 in another order, in ten steps. Other masks of dropout change losses by a thousandth and more.
  static constexpr double kRounding = 1e-5;

 private:
  int runs_ = 0;
};

TEST_F(TransformerRuns, AreExactAfterAnInterruptWithinAnEpoch) {
  for (const std::string& recipe : {kGpt, kEncoder})
    for (const Words& overrides : {Words{"optimizer.momentum=null", "optimizer.type=adamw", "optimizer.lr=0.01"},
                                   Words{"data.batch_size=2", "gradient_accumulation_steps=4", "backend=gpu"},
                                   Words{"num_processes=2", "split_batches=true", "model.remat=block"}}) {
      SCOPED_TRACE(fmt::format("{}\n{}", fmt::join(overrides, " "), recipe));
      const std::string name = std::to_string(std::hash<std::string>()(recipe)) + overrides.front()[0];
      const std::string whole = "whole" + name + ".db", part = "part" + name + ".db";
      ASSERT_EQ(run(recipe, {.store = whole, .overrides = overrides}).exit_code, 0);
      const RunResult stopped = run(recipe, {.store = part, .overrides = overrides, .stop_after = 2});
      ASSERT_EQ(stopped.exit_code, 4);
      ASSERT_LT(stopped.optimizer_steps, kStepsPerEpoch);
      ASSERT_EQ(run(recipe, {.store = part, .resume = "@last", .overrides = overrides}).exit_code, 0);
      EXPECT_EQ(trained(part), trained(whole));
      EXPECT_EQ(trained(part).losses.size(), 2 * kStepsPerEpoch);
    }
}

TEST_F(TransformerRuns, ContinueWithAnotherNumberOfRanks) {
  for (const std::string& recipe : {kGpt, kEncoder}) {
    SCOPED_TRACE(recipe);
    const Trained whole = trained_with(recipe, {});
    const Words one{}, two{"num_processes=2", "split_batches=true"}, eight{"num_processes=8", "split_batches=true"};
    int pair = 0;
    for (const auto& [before, after] : {std::pair(one, eight), std::pair(eight, one), std::pair(two, eight)}) {
      const std::string store = fmt::format("{}.{}.db", std::hash<std::string>()(recipe), pair++);
      ASSERT_EQ(run(recipe, {.store = store, .overrides = before, .stop_after = 2}).exit_code, 4);
      ASSERT_EQ(run(recipe, {.store = store, .resume = "@last", .other_batches = true, .overrides = after}).exit_code,
                0);
      expect_near(trained(store), whole);
    }
  }
}

// With dropout, so its masks do not depend on the rank or the micro-batch of a sample.
TEST_F(TransformerRuns, AreThoseOfOneRankAndOneBatch) {
  for (const std::string& recipe : {kGpt, kEncoder}) {
    SCOPED_TRACE(recipe);
    const Trained one = trained_with(recipe, {});
    EXPECT_GT(loss_distance(one, trained_with(recipe, {"model.dropout=0"})), 100 * kRounding)
        << "dropout has an effect";
    EXPECT_GT(loss_distance(one, trained_with(recipe, {"seed=4", "data.seed=3"})), 100 * kRounding);
    for (const Words& division : {Words{"num_processes=2", "split_batches=true"},
                                  {"num_processes=8", "split_batches=true"},
                                  {"num_processes=8", "split_batches=true", "model.remat=block"},
                                  {"num_processes=8", "data.batch_size=1"},
                                  {"data.batch_size=2", "gradient_accumulation_steps=4"},
                                  {"num_processes=2", "data.batch_size=1", "gradient_accumulation_steps=4"}}) {
      SCOPED_TRACE(fmt::format("{}", fmt::join(division, " ")));
      expect_near(trained_with(recipe, division), one);
    }
  }
}

// The gradient of the first step is its momentum.
TEST_F(TransformerRuns, DoNotDependOnPadding) {
  for (const std::string& recipe : {kEncoder, kGptOfRows})
    for (const char* dropout : {"model.dropout=0", "model.dropout=0.1"})
      for (const char* steps : {"train={steps: 1}", "train={steps: 10}"}) {
        SCOPED_TRACE(fmt::format("{} {}\n{}", dropout, steps, recipe));
        const Trained longest = trained_with(recipe, {dropout, steps});
        for (const char* padding : {"bucket", "max_length"})
          expect_near(trained_with(recipe, {dropout, steps, fmt::format("data.tokens.padding={}", padding)}), longest);
      }
}

}  // namespace
}  // namespace runner::train
