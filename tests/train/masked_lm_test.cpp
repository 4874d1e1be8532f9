// Masked language models: the loss of a step is the mean over all labelled tokens, however they are divided into
// batches, micro-batches and ranks; and a step without any label changes nothing.
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "runner/data/order.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr int64_t kLength = 6, kVocabulary = 12;
using Words = std::vector<std::string>;

class MaskedLm : public RunFixture {
 protected:
  // 13 documents: 17 samples. Without a `probability`, most samples have no label.
  std::string recipe(double probability) {
    write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##a\n##b\nd\ne\n");
    std::string text;
    for (int i = 0; i < 13; ++i)
      text += fmt::format("a b{} c d {} ab\n", i % 3 == 0 ? "" : "a", i % 2 == 0 ? "e" : "b");
    write("text.txt", text);
    write("r.yaml", fmt::format(R"(schema_version: 1
model: {{type: encoder, head: masked_lm, layers: 1, heads: 2, width: 8, dropout: 0}}
data:
  train: {{format: text, path: text.txt, tokens: vocab.txt, document_separator: "\n", sequence_length: {}}}
  batch_size: 4
  seed: 0
optimizer: {{type: adamw, lr: 0.01, weight_decay: 0.1}}
train: {{epochs: 3, objective: {{type: masked_lm, probability: {}}}}}
log: {{grad_norm: true}}
)",
                                kLength, probability));
    return path("r.yaml").string();
  }
};

// Token losses and numbers of labels of the samples, in epoch 0 of seed 0, by a plain loop over the model's outputs.
struct SampleSums {
  std::vector<double> losses;
  std::vector<int64_t> labels;
  int64_t hits = 0;

  double mean(std::span<const int64_t> samples) const {
    double sum = 0, count = 0;
    for (const int64_t id : samples) {
      sum += losses[static_cast<size_t>(id)];
      count += static_cast<double>(labels[static_cast<size_t>(id)]);
    }
    return sum / count;
  }
};

SampleSums sums_of(Session& session) {
  const data::Dataset& set = session.data.train;
  const std::vector<float> outputs = Evaluator(session.trainer, set, session.recipe, nullptr).predict().values;
  EXPECT_EQ(std::ssize(outputs), set.size() * kLength * kVocabulary);
  SampleSums sums;
  for (int64_t id = 0; id < set.size(); ++id) {
    std::vector<int64_t> tokens(kLength), labels(kLength);
    set.gather_tokens(std::vector{id}, tokens);
    set.mask({}, std::vector{id}, tokens, labels);
    double loss = 0;
    int64_t count = 0;
    for (int64_t t = 0; t < kLength; ++t) {
      const int64_t label = labels[static_cast<size_t>(t)];
      if (label == data::kNoLabel) continue;
      const auto row = std::span(outputs).subspan(static_cast<size_t>((id * kLength + t) * kVocabulary), kVocabulary);
      double sum = 0;
      for (const float output : row) sum += std::exp(static_cast<double>(output));
      loss += std::log(sum) - static_cast<double>(row[static_cast<size_t>(label)]);
      sums.hits += std::ranges::max_element(row) - row.begin() == label;
      ++count;
    }
    sums.losses.push_back(loss);
    sums.labels.push_back(count);
  }
  return sums;
}

TEST_F(MaskedLm, EvaluationIsTheMeanOfAllLabelledTokens) {
  for (const double probability : {0.5, 0.05}) {
    for (const int64_t batch : {1, 5, 17}) {
      const schema::ReadResult read = schema::read_recipe(
          recipe(probability), Words{fmt::format("eval.batch_size={}", batch), "data.split.eval=0.4",
                                     "eval.metrics=[loss, perplexity, token_accuracy]"});
      Session session(read.recipe);
      session.trainer.allocate();
      const SampleSums sums = sums_of(session);
      std::vector<int64_t> all(sums.losses.size());
      std::iota(all.begin(), all.end(), 0);
      const double mean = sums.mean(all);
      const int64_t labels = std::accumulate(sums.labels.begin(), sums.labels.end(), int64_t{0});
      ASSERT_GT(labels, 0);
      const auto result = Evaluator(session.trainer, session.data.train, session.recipe, nullptr).run();
      EXPECT_NEAR(result.at("loss"), mean, 1e-6);
      EXPECT_NEAR(result.at("perplexity"), std::exp(mean), 1e-5);
      EXPECT_DOUBLE_EQ(result.at("token_accuracy"), static_cast<double>(sums.hits) / static_cast<double>(labels));
    }
  }
}

// With a learning rate of 0, every step of the first epoch has the weights of the plain loop.
TEST_F(MaskedLm, StepsAreMeansOfTheirLabelledTokens) {
  const std::vector<Words> divisions = {
      {"data.batch_size=4"},
      {"data.batch_size=1", "gradient_accumulation_steps=4"},
      {"data.batch_size=2", "gradient_accumulation_steps=2"},
      {"data.batch_size=1", "gradient_accumulation_steps=2", "num_processes=2"},
      {"data.batch_size=4", "split_batches=true", "num_processes=3"},
      {"data.batch_size=4", "split_batches=true", "num_processes=3", "backend=gpu"},
  };
  for (const double probability : {0.5, 0.05}) {
    std::vector<double> norms;
    for (const Words& division : divisions) {
      SCOPED_TRACE(fmt::format("{} {}", probability, division.back()));
      Words overrides = division;
      overrides.insert(overrides.end(), {"optimizer.lr=0", "threads=1"});
      const schema::ReadResult read = schema::read_recipe(recipe(probability), overrides);
      const schema::ReadResult alone = schema::read_recipe(path("r.yaml").string(), Words{"optimizer.lr=0"});
      const auto train = [&](backends::ProcessGroup* ranks) {
        Session session(read.recipe, nullptr, ranks);
        session.trainer.allocate();
        Session plain(alone.recipe);
        plain.trainer.allocate();
        const SampleSums sums = sums_of(plain);
        data::Order order(session.data.train.size(), session.data_seed(), true);
        order.set_epoch(0);
        data::Loader loader(session.data.train, session.plan,
                            {.seed = session.data_seed(), .rank = session.rank(), .prefetch = 0});
        for (int64_t step = 0; step < session.plan.optimizer_steps(1); ++step) {
          StepResult result = session.trainer.stepper().run(loader, session.rates());
          session.trainer.stepper().read_counters(result);
          std::vector<int64_t> samples;
          for (int64_t at = 4 * step; at < std::min(4 * step + 4, session.data.train.size()); ++at)
            samples.push_back(order[at]);
          const double want = sums.mean(samples), loss = session.trainer.means().take_loss();
          EXPECT_EQ(std::isnan(loss), std::isnan(want)) << step;
          EXPECT_EQ(result.applied, !std::isnan(want)) << step;
          if (!std::isnan(want)) {
            EXPECT_NEAR(loss, want, 1e-5) << step;
          }
          if (session.rank() != 0) continue;
          if (&division == &divisions.front())
            norms.push_back(result.grad_norm);
          else
            EXPECT_NEAR(result.grad_norm, norms[static_cast<size_t>(step)], 1e-5) << step;
        }
      };
      if (read.recipe.num_processes == 1)
        train(nullptr);
      else
        backends::testing::on_threads(static_cast<int>(read.recipe.num_processes),
                                      [&](backends::ProcessGroup& ranks) { train(&ranks); });
    }
  }
}

std::vector<std::vector<std::byte>> weights_and_moments(Session& session) {
  std::vector<std::vector<std::byte>> all;
  const auto& arrays = session.trainer.arrays();
  const auto& layout = session.trainer.builder().layout().arrays();
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout[i].role != ArrayRole::kParameters && layout[i].role != ArrayRole::kSlot) continue;
    all.emplace_back(layout[i].type.bytes());
    arrays.read(static_cast<int32_t>(i), 0, all.back());
  }
  return all;
}

TEST_F(MaskedLm, AStepWithoutAnyLabelChangesNoWeightAndNoMoment) {
  const std::vector<Words> variants = {{},
                                       {"train.ema.decay=0.9"},
                                       {"mixed_precision=fp16"},
                                       {"backend=tpu", "num_processes=1"},
                                       {"optimizer={type: sgd, momentum: 0.9, weight_decay: 0.1}"}};
  for (const Words& variant : variants) {
    SCOPED_TRACE(variant.empty() ? "adamw" : variant.front());
    Words overrides = variant;
    overrides.insert(overrides.end(), {"data.batch_size=1", "train.epochs=2"});
    const schema::ReadResult read = schema::read_recipe(recipe(0.1), overrides);
    Session session(read.recipe);
    session.trainer.allocate();
    data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .prefetch = 0});
    int64_t without = 0, with = 0;
    auto before = weights_and_moments(session);
    for (int64_t step = 0; step < session.plan.optimizer_steps(2); ++step) {
      StepResult result = session.trainer.stepper().run(loader, session.rates());
      session.trainer.stepper().read_counters(result);
      const bool has_label = !std::isnan(session.trainer.means().take_loss());
      auto after = weights_and_moments(session);
      EXPECT_EQ(after == before, !has_label || !result.applied) << step;
      ++(has_label ? with : without);
      before = std::move(after);
    }
    EXPECT_GT(with, 5);
    EXPECT_GT(without, 5);
    EXPECT_EQ(session.trainer.counters.steps, with + without);
    if (variant != Words{"mixed_precision=fp16"}) {
      EXPECT_EQ(session.trainer.counters.applied, with);
      EXPECT_EQ(session.trainer.counters.updates.begin()->second, with);
    }
  }
}

TEST_F(MaskedLm, StepsWithoutLabelsAreCountedAndReported) {
  recipe(0.1);
  const RunResult result = train(support::read_text(path("r.yaml")), {.overrides = {"data.batch_size=1"}});
  ASSERT_EQ(result.status, store::RunStatus::kDone);
  EXPECT_GT(result.skipped_steps, 10);
  EXPECT_EQ(result.unlabelled_steps, result.skipped_steps);
  const std::vector<std::string> warnings = events("warning");
  const std::string text =
      fmt::format("{} of {} steps were skipped: no label counted", result.skipped_steps, result.optimizer_steps);
  EXPECT_TRUE(std::ranges::any_of(warnings, [&](const std::string& warning) {
    return warning.find(text) != warning.npos;
  })) << text;
}

}  // namespace
}  // namespace runner::train
