// train.auto_batch_size and cpu.memory: what fits is known before a run, and micro-batches train like whole batches.
#include "runner/train/loop/batch_fit.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "runner/data/loader.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/step_estimate.h"
#include "runner/train/loop/trial_rank.h"
#include "schema/base/error.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

// Optimizer steps of 16 samples and one of 2, whether in batches of 8 or of 4.
constexpr const char* kFitted = R"(schema_version: 1
name: fitted
seed: 5
gradient_accumulation_steps: 2
model: {type: mlp, hidden: [16], dropout: 0.2}
data:
  train: {format: synthetic, samples: 50, features: [5], classes: 3}
  eval: {format: synthetic, samples: 30, features: [5], classes: 3}
  batch_size: 8
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 3, clip_grad_norm: 1.0, auto_batch_size: true}
eval: {every: 2 steps}
log: {every: 1 step}
)";

class BatchFitTest : public RunFixture {
 protected:
  // Peak memory of a process with batches of `batch` samples, in bytes.
  int64_t bytes_with(int64_t batch) {
    write("recipe.yaml", kFitted);
    const schema::ReadResult read = schema::read_recipe(
        path("recipe.yaml").string(), std::vector<std::string>{fmt::format("data.batch_size={}", batch)});
    const Session session(read.recipe);
    const StepEstimate estimate = estimate_steps(read.recipe, session.data, session.plan, *session.device, nullptr);
    return std::max(estimate.peak.training, estimate.peak.evaluation);
  }

  static std::string memory(int64_t bytes) { return fmt::format("cpu.memory={} B", bytes); }

  RunResult fitted(const std::string& store, std::vector<std::string> overrides) {
    return train(kFitted, {.store = store, .overrides = std::move(overrides)});
  }

  // The tensors of the last checkpoint, without the data position.
  std::map<std::string, std::vector<std::byte>> tensors(const std::string& store) {
    auto sections = last_state(store);
    std::erase_if(sections, [](const auto& section) { return section.first == "run"; });
    return sections;
  }

  std::string error_of(const std::vector<std::string>& overrides) {
    try {
      const RunResult result = fitted("failed.db", overrides);
      return result.error ? "in the run: " + result.error->message : "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
      return error.message();
    }
  }
};

TEST_F(BatchFitTest, ABatchThatFitsIsNotDivided) {
  const RunResult result = fitted("a.db", {memory(bytes_with(8))});
  ASSERT_EQ(result.exit_code, 0);
  ASSERT_TRUE(result.fitted_batch);
  EXPECT_EQ(result.fitted_batch->batch_size, 8);
  EXPECT_EQ(result.fitted_batch->accumulation, 2);
  EXPECT_EQ(result.fitted_batch->attempts.size(), 1U);
  EXPECT_TRUE(result.warnings.empty());
  ASSERT_EQ(fitted("b.db", {"train.auto_batch_size=false"}).exit_code, 0);
  EXPECT_EQ(tensors("a.db"), tensors("b.db"));
}

// Bit for bit, because micro-batches equal the batches that one would write by hand.
TEST_F(BatchFitTest, MicroBatchesTrainLikeManualAccumulation) {
  const int64_t limit = bytes_with(4);
  ASSERT_LT(limit, bytes_with(8));
  const RunResult parts = fitted("parts.db", {memory(limit)});
  const RunResult by_hand =
      fitted("hand.db", {"train.auto_batch_size=false", "data.batch_size=4", "gradient_accumulation_steps=4"});
  ASSERT_EQ(parts.exit_code, 0);
  ASSERT_EQ(by_hand.exit_code, 0);
  EXPECT_EQ(tensors("parts.db"), tensors("hand.db"));
  for (const char* metric : {"train/loss", "train/grad_norm", "train/lr", "eval/loss", "eval/accuracy", kBatchDigest})
    EXPECT_EQ(points(metric, "parts.db"), points(metric, "hand.db")) << metric;
  EXPECT_EQ(parts.samples, by_hand.samples);
  EXPECT_EQ(parts.optimizer_steps, by_hand.optimizer_steps);
  const FittedBatch& fit = *parts.fitted_batch;
  EXPECT_EQ(fit.batch_size, 4);
  EXPECT_EQ(fit.accumulation, 4);
  EXPECT_EQ(fit.memory_bytes, limit);
  ASSERT_EQ(fit.attempts.size(), 2U);
  EXPECT_EQ(fit.attempts[0].samples, 8);
  EXPECT_FALSE(fit.attempts[0].fits);
  EXPECT_EQ(fit.attempts[1].bytes, limit);
  EXPECT_TRUE(fit.attempts[1].fits);
  EXPECT_LE(parts.peak_memory.training, limit);
  ASSERT_EQ(parts.warnings.size(), 1U);
  EXPECT_EQ(parts.warnings[0], fmt::format("train.auto_batch_size: a micro-batch of 8 needs {}, limit {} per process; "
                                           "using 4 × 4 accumulation steps",
                                           schema::readable_size(fit.attempts[0].bytes), schema::readable_size(limit)));
}

// The rest of a batch is a micro-batch too. Dropped and padding samples still follow the batch size.
TEST_F(BatchFitTest, UnevenMicroBatchesAreWeightedExactly) {
  const int64_t limit = bytes_with(23);
  for (const char* drop : {"data.drop_last=true", "data.drop_last=false"}) {
    const std::vector<std::string> recipe{"data.batch_size=90", "data.train.samples=400", "model.dropout=0", drop};
    std::vector<std::string> cut = recipe, whole = recipe;
    cut.push_back(memory(limit));
    whole.push_back("train.auto_batch_size=false");
    const RunResult parts = fitted("parts.db", cut), one = fitted("whole.db", whole);
    ASSERT_EQ(parts.exit_code, 0);
    EXPECT_EQ(parts.fitted_batch->batch_size, 23);
    EXPECT_EQ(parts.fitted_batch->accumulation, 8);  // 23, 23, 23 and 21, twice
    EXPECT_EQ(parts.samples, one.samples);
    EXPECT_EQ(points(kBatchDigest, "parts.db"), points(kBatchDigest, "whole.db"));
    const auto got = points("train/loss", "parts.db"), want = points("train/loss", "whole.db");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].second, want[i].second, 1e-5 * want[i].second) << i;
  }
}

TEST_F(BatchFitTest, AResumedRunKeepsTheMicroBatch) {
  const std::string limit = memory(bytes_with(4));
  ASSERT_EQ(fitted("whole.db", {limit}).exit_code, 0);
  ASSERT_EQ(train(kFitted, {.store = "parts.db", .overrides = {limit}, .stop_after = 5}).exit_code, 4);
  const RunResult rest = train(kFitted, {.store = "parts.db", .resume = "@last", .overrides = {"cpu.memory=1 GiB"}});
  ASSERT_EQ(rest.exit_code, 0);
  EXPECT_EQ(last_state("parts.db"), last_state("whole.db"));
  EXPECT_EQ(rest.fitted_batch->batch_size, 4);
  EXPECT_EQ(rest.fitted_batch->accumulation, 4);
  EXPECT_TRUE(rest.fitted_batch->attempts.empty());
}

// Micro-batches need gradient accumulation, which a run of whole batches does not. A resumed run learns this from its
// checkpoint.
TEST_F(BatchFitTest, OnlyMicroBatchesKeepGradients) {
  const std::vector<std::string> common{"gradient_accumulation_steps=1", "data.batch_size=48", "data.eval.samples=8"};
  for (const std::string backend : {"cpu", "gpu", "tpu"}) {
    SCOPED_TRACE(backend);
    std::vector<std::string> on{"backend=" + backend};
    on.insert(on.end(), common.begin(), common.end());
    std::vector<std::string> off = on;
    off.push_back("train.auto_batch_size=false");
    const RunResult asked = fitted(backend + "asked.db", on), whole = fitted(backend + "off.db", off);
    EXPECT_EQ(asked.fitted_batch->batch_size, 48);
    EXPECT_EQ(asked.peak_memory.training, whole.peak_memory.training);
    EXPECT_EQ(tensors(backend + "asked.db"), tensors(backend + "off.db"));
    if (backend != "cpu") continue;

    on.push_back(memory(whole.peak_memory.training - 1));
    const RunResult parts = fitted("parts.db", on);
    ASSERT_EQ(parts.exit_code, 0);
    EXPECT_LT(parts.fitted_batch->batch_size, 48);
    ASSERT_EQ(train(kFitted, {.store = "left.db", .overrides = on, .stop_after = 2}).exit_code, 4);
    on.back() = "cpu.memory=1 GiB";
    ASSERT_EQ(train(kFitted, {.store = "left.db", .resume = "@last", .overrides = on}).exit_code, 0);
    EXPECT_EQ(last_state("left.db"), last_state("parts.db"));
  }
}

// On a GPU that has room only for whole batches without accumulated gradients, training is the same as without
// train.auto_batch_size.
TEST_F(BatchFitTest, WholeBatchesNeedNoMoreGpuMemory) {
  for (int64_t mebibytes = 8; mebibytes <= 64; mebibytes += 4) {
    const std::vector<std::string> asked{"backend=gpu",
                                         "data.batch_size=32",
                                         "gradient_accumulation_steps=1",
                                         "model.hidden=[1024,1024]",
                                         "train.epochs=1",
                                         fmt::format("gpu.memory={} MiB", mebibytes)};
    std::vector<std::string> off = asked;
    off.push_back("train.auto_batch_size=false");
    if (error_of(off) != "no error") continue;
    const RunResult result = fitted("asked.db", asked);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.fitted_batch->batch_size, 32);
    return;
  }
  ADD_FAILURE() << "no batch size fits";
}

// Evaluations have their own batch size.
TEST_F(BatchFitTest, EvaluationsAreDividedToo) {
  const int64_t limit = bytes_with(8);
  const RunResult parts = fitted("parts.db", {memory(limit), "data.eval.samples=3000", "eval.batch_size=3000"});
  ASSERT_EQ(parts.exit_code, 0);
  EXPECT_LE(parts.peak_memory.evaluation, limit);
  EXPECT_LT(parts.fitted_batch->samples, 100);
  ASSERT_EQ(
      fitted("whole.db", {"train.auto_batch_size=false", "data.eval.samples=3000", "eval.batch_size=3000"}).exit_code,
      0);
  EXPECT_EQ(parts.metrics.at("eval/accuracy").last, points("eval/accuracy", "whole.db").back().second);
  EXPECT_NEAR(parts.metrics.at("eval/loss").last, points("eval/loss", "whole.db").back().second, 1e-6);
}

TEST_F(BatchFitTest, FailsIfOneSampleDoesNotFit) {
  const int64_t one = bytes_with(1);
  EXPECT_EQ(fitted("fits.db", {memory(one)}).fitted_batch->batch_size, 1);
  const std::string text = error_of({memory(one - 1)});
  EXPECT_TRUE(
      text.starts_with("train.auto_batch_size: not even a micro-batch of one sample fits: a process needs at least "))
      << text;
  EXPECT_TRUE(text.ends_with(" B available; use a smaller model or more memory")) << text;
  EXPECT_FALSE(std::filesystem::exists(path("failed.db")));
}

// Uses what the allocator model would reserve for the step, including traced regions.
TEST_F(BatchFitTest, FitsGpusWithTheAllocatorModel) {
  const auto on_gpu = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"backend=gpu", "data.train.samples=4096", "data.train.features=[64]",
                                       "data.eval.features=[64]", "data.batch_size=4096", "model.hidden=[256,256]",
                                       "train.epochs=2", "gradient_accumulation_steps=1"});
    return overrides;
  };
  for (const int processes : {1, 2}) {
    SCOPED_TRACE(processes);
    const std::string process_count = fmt::format("num_processes={}", processes);
    const auto run = [&](const std::string& store, const std::string& setting) {
      return fitted(store + std::to_string(processes), on_gpu({process_count, setting}));
    };
    const RunResult whole = run("whole.db", "gpu.memory=1 GiB"), parts = run("parts.db", "gpu.memory=44 MiB");
    ASSERT_EQ(whole.exit_code, 0);
    ASSERT_EQ(parts.exit_code, 0);
    EXPECT_EQ(whole.fitted_batch->attempts.size(), 1U);
    EXPECT_GT(parts.fitted_batch->attempts.size(), 1U);
    EXPECT_GT(whole.peak_memory.evaluation, 44 << 20);
    EXPECT_LE(parts.peak_memory.evaluation, 44 << 20);
    EXPECT_NEAR(parts.metrics.at("train/loss").last, whole.metrics.at("train/loss").last, 1e-5);
    const std::string error = error_of(on_gpu({process_count, "gpu.memory=44 MiB", "train.auto_batch_size=false"}));
    EXPECT_TRUE(error.starts_with("out of memory: gpu 0 cannot allocate ")) << error;
    EXPECT_NE(error.find("First thing to change: a batch of "), std::string::npos) << error;
  }
}

// Whatever occurs besides full batches: the rest of an epoch, evaluations and their rest, captured graphs, several
// ranks.
TEST_F(BatchFitTest, AFittedBatchTrainsOnAGpu) {
  struct Case {
    std::string name;
    std::vector<std::string> overrides;
  };
  const Case cases[] = {{"plain", {}},
                        {"captured", {"gpu.capture=true", "gradient_accumulation_steps=1"}},
                        {"ranks", {"num_processes=2", "gradient_accumulation_steps=1"}},
                        {"accumulated", {"gradient_accumulation_steps=3", "num_processes=2", "gpu.capture=true"}},
                        {"large_evaluation", {"eval.batch_size=900"}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    std::set<int64_t> at_once;
    for (int64_t mebibytes = 6; mebibytes <= 38; mebibytes += 8) {
      SCOPED_TRACE(mebibytes);
      std::vector<std::string> overrides{"backend=gpu",
                                         "threads=1",
                                         "data.train.samples=1900",
                                         "data.train.features=[64]",
                                         "data.eval.features=[64]",
                                         "data.eval.samples=1300",
                                         "data.batch_size=800",
                                         "model.hidden=[300,300]",
                                         fmt::format("gpu.memory={} MiB", mebibytes)};
      overrides.insert(overrides.end(), one.overrides.begin(), one.overrides.end());
      const std::string store = fmt::format("{}{}.db", one.name, mebibytes);
      RunResult result;
      try {
        result = fitted(store, overrides);
      } catch (const Error& error) {
        EXPECT_TRUE(at_once.empty()) << "it trained with less memory: " << error.message();
        continue;
      }
      ASSERT_EQ(result.exit_code, 0) << (result.error ? result.error->message : "");
      at_once.insert(result.fitted_batch->samples);
    }
    EXPECT_GT(at_once.size(), 1U) << "expected a batch that does not fit at once";
  }
}

TEST_F(BatchFitTest, TheMemoryLimitHoldsWithoutAutoBatchSize) {
  const int64_t limit = bytes_with(8);
  const std::string off = "train.auto_batch_size=false";
  EXPECT_EQ(error_of({off, memory(limit)}), "no error");
  const std::string text = error_of({off, "data.batch_size=50", memory(limit)});
  EXPECT_TRUE(text.starts_with("out of memory: \"forward, backward\" needs ")) << text;
  EXPECT_TRUE(text.ends_with("reduce data.batch_size, or set train.auto_batch_size")) << text;
  EXPECT_EQ(error_of({off, "cpu.memory=100 B"}).substr(0, 62),
            "out of memory: parameters, gradients and optimizer state need ");
}

struct Explained {
  std::string what;
  int64_t step_bytes, search_bytes;  // temporary memory
  int64_t limit;                     // has room only for the step
};

// Trains until a loss is not finite and searches for the cause.
Explained explain_divergence(const schema::Recipe& recipe) {
  Session session(recipe);
  session.trainer.allocate();
  data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = 0});
  while (session.trainer.stepper().run(loader, {}).finite) continue;
  Explained result;
  result.step_bytes = static_cast<int64_t>(session.device->temporary_bytes());
  result.limit = session.trainer.arrays().memory().total() + result.step_bytes;
  session.device->release_temporary();
  result.what = session.trainer.search().explain(loader, 0, {}).what;
  result.search_bytes = static_cast<int64_t>(session.device->temporary_bytes());
  return result;
}

TEST_F(BatchFitTest, TheSearchForNotFiniteValuesRespectsTheLimit) {
  write("recipe.yaml", kFitted);
  const auto explained = [&](const std::string& memory) {
    return explain_divergence(
        schema::read_recipe(path("recipe.yaml").string(),
                            std::vector<std::string>{"optimizer.lr=1e20", "train.auto_batch_size=false", memory,
                                                     "model.hidden=[16,16,16,16]", "data.batch_size=25"})
            .recipe);
  };
  const Explained free = explained("cpu.memory=1 GiB");
  EXPECT_GT(free.search_bytes, free.step_bytes) << "expected a search that needs more memory";
  const Explained tight = explained(memory(free.limit));
  EXPECT_LE(tight.search_bytes, tight.step_bytes);
  EXPECT_EQ(tight.what, free.what);
  EXPECT_NE(free.what.find(" is "), std::string::npos) << free.what;
}

// The step that combines the ranks at the end of an optimizer step needs memory too, which is known before anything
// runs.
TEST_F(BatchFitTest, TheUpdateStepOfAllRanksMustFitToo) {
  write("recipe.yaml", kFitted);
  const auto prepared = [&](const std::string& memory) {
    const schema::ReadResult read = schema::read_recipe(
        path("recipe.yaml").string(),
        std::vector<std::string>{"train.auto_batch_size=false", "num_processes=2", "data.batch_size=1", "threads=1",
                                 "model.hidden=[64]", "comm.hook=power_sgd", "comm.start=2", memory});
    std::pair<int64_t, std::string> result;
    backends::testing::on_threads(2, [&](backends::SharedMemoryGroup& ranks) {
      std::string error = "no error";
      Session session(read.recipe, nullptr, &ranks);
      session.trainer.allocate();
      try {
        session.trainer.step_memory().prepare({.batch = 0});  // of a rank without samples
      } catch (const Error& failure) {
        error = failure.message();
      }
      if (ranks.rank() == 0) result = {session.trainer.arrays().memory().total(), error};
    });
    return result;
  };
  const auto [arrays, fits] = prepared("cpu.memory=1 GiB");
  EXPECT_EQ(fits, "no error");
  const std::string text = prepared(memory(arrays + 1000)).second;
  EXPECT_TRUE(text.starts_with("out of memory: \"update\" needs ")) << text;
  EXPECT_TRUE(text.ends_with(" available per process; use a smaller model")) << text;
}

// Including the trainer that keeps gradients, which is made once batches are divided.
TEST_F(BatchFitTest, EachTrainerOfATrialCanBeHalted) {
  write("recipe.yaml", kFitted);
  const schema::ReadResult read =
      schema::read_recipe(path("recipe.yaml").string(), std::vector<std::string>{"gradient_accumulation_steps=1"});
  const Session session(read.recipe);
  TrialRank trial(read.recipe, session.length.total_steps, session.data.encoding, *session.device, nullptr);
  int asked = 0;
  trial.set_halt([&] { ++asked; });
  for (const int64_t samples : {8, 4}) {
    trial.set_max_micro_batch(samples, 8);
    asked = 0;
    trial.trainer().step_memory().peak(session.plan, std::nullopt);
    EXPECT_GT(asked, 0) << samples;
  }
}

}  // namespace
}  // namespace runner::train
