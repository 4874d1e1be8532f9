// Training with several ranks, on threads: all have the same bits, and they compute what one process computes with the
// same global batches.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "backends/tensor/float16.h"
#include "runner/formats/safetensors.h"
#include "runner/train/engine/rank_weights.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/copying_group.h"
#include "tests/backends/support/on_threads.h"
#include "tests/support/temp_folder.h"
#include "tests/train/array_values.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_copying_threads;
using backends::testing::on_threads;

struct Trained {
  std::vector<float> parameters;
  std::vector<double> losses, norms;  // per optimizer step
  std::vector<int64_t> samples;
  std::map<std::string, double> evaluated;
  Counters counters;
};

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() {
    support::write_text("r.yaml", R"(schema_version: 1
seed: 3
model: {type: mlp, hidden: [12], dropout: 0.25}
data:
  train: {format: synthetic, samples: 37, features: [6], classes: 3}
  eval: {format: synthetic, samples: 23, features: [6], classes: 3}
  batch_size: 8
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 3, clip_grad_norm: 1.0, class_weights: [1, 2.5, 0.5]}
eval: {metrics: [loss, accuracy, f1_macro]}
threads: 1
)");
  }

  static schema::ReadResult recipe(std::vector<std::string> overrides) {
    return schema::read_recipe("r.yaml", overrides);
  }

  // `steps`: maximum number of optimizer steps; 0: all.
  static Trained train(Session& session, int64_t optimizer_steps) {
    Trained result;
    session.trainer.allocate();
    const int64_t batch = session.plan.slice(session.rank(), 0).size();
    session.trainer.step_memory().prepare({.batch = batch, .last = session.plan.optimizer_step(0).steps == 1});
    data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
    const int64_t steps = optimizer_steps > 0 ? optimizer_steps : session.length.total_steps;
    for (int64_t step = 0; step < steps; ++step) {
      const StepResult step_result = session.trainer.stepper().run(loader, {.factor = session.schedule.factor(step)});
      EXPECT_TRUE(step_result.finite);
      result.samples.push_back(step_result.samples);
      result.losses.push_back(session.trainer.means().take_loss());
      result.norms.push_back(step_result.grad_norm);
    }
    result.parameters = array_of<float>(session.trainer, ArrayRole::kParameters);
    result.evaluated = Evaluator(session.trainer, *session.data.eval, session.recipe, nullptr, session.ranks).run();
    result.counters = session.trainer.counters;
    return result;
  }

  enum class Transport { kSharedMemory, kCopies };

  static void on_each_rank(const std::vector<std::string>& overrides, const std::function<void(Session&)>& work,
                           std::optional<bool> own_thread = {}, Transport transport = Transport::kSharedMemory) {
    const schema::ReadResult read = recipe(overrides);
    const auto size = static_cast<int>(read.recipe.num_processes);
    if (size == 1) {
      Session session(read.recipe, nullptr, nullptr, nullptr, own_thread);
      return work(session);
    }
    const auto run = [&](backends::ProcessGroup& ranks) {
      Session session(read.recipe, nullptr, &ranks, nullptr, own_thread);
      work(session);
    };
    transport == Transport::kCopies ? on_copying_threads(size, run) : on_threads(size, run);
  }

  // By rank.
  static std::vector<Trained> train(const std::vector<std::string>& overrides, int64_t optimizer_steps = 0,
                                    std::optional<bool> own_thread = {},
                                    Transport transport = Transport::kSharedMemory) {
    std::vector<Trained> results(static_cast<size_t>(recipe(overrides).recipe.num_processes));
    on_each_rank(
        overrides,
        [&](Session& session) { results[static_cast<size_t>(session.rank())] = train(session, optimizer_steps); },
        own_thread, transport);
    return results;
  }

  static void expect_same_on_all_ranks(const std::vector<Trained>& ranks) {
    for (const Trained& rank : ranks) {
      EXPECT_EQ(rank.parameters, ranks.front().parameters);
      EXPECT_EQ(rank.losses, ranks.front().losses);
      EXPECT_EQ(rank.norms, ranks.front().norms);
      EXPECT_EQ(rank.samples, ranks.front().samples);
      EXPECT_EQ(rank.evaluated, ranks.front().evaluated);
      EXPECT_EQ(rank.counters, ranks.front().counters);
    }
  }

  static double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      size += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / size);
  }

 private:
  const support::TempFolder folder_;
  const support::CurrentFolder inside_{folder_.path()};
};

// 37 samples in global batches: the last one of an epoch is short, so ranks have uneven or empty parts of it.
TEST_F(RanksTest, MatchASingleProcess) {
  for (const int64_t accumulation : {1, 3})
    for (const char* flags : {"even_batches=true", "even_batches=false", "drop_last=true", "dispatch_batches=true"}) {
      const std::vector<std::string> common{fmt::format("gradient_accumulation_steps={}", accumulation),
                                            fmt::format("data.{}", flags), "split_batches=true", "data.batch_size=10"};
      const Trained alone = train(common).front();
      for (const int processes : {2, 3, 4, 8}) {
        SCOPED_TRACE(fmt::format("{} processes, K {}, {}", processes, accumulation, flags));
        std::vector<std::string> overrides = common;
        overrides.push_back(fmt::format("num_processes={}", processes));
        const std::vector<Trained> ranks = train(overrides);
        expect_same_on_all_ranks(ranks);
        EXPECT_EQ(ranks[0].samples, alone.samples);
        Counters counters = ranks[0].counters;
        const int64_t repeats = std::exchange(counters.repeats, 0);
        EXPECT_EQ(counters, alone.counters);
        EXPECT_EQ(repeats > 0, std::string_view(flags) == "even_batches=true" ||
                                   (std::string_view(flags) == "dispatch_batches=true" && 7 % processes != 0));
        EXPECT_LT(relative_distance(ranks[0].parameters, alone.parameters), 1e-5);
        for (size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 1e-5);
        EXPECT_NEAR(ranks[0].evaluated.at("loss"), alone.evaluated.at("loss"), 1e-5);
        EXPECT_EQ(ranks[0].evaluated.at("accuracy"), alone.evaluated.at("accuracy"));
        EXPECT_EQ(ranks[0].evaluated.at("f1_macro"), alone.evaluated.at("f1_macro"));
      }
    }
}

// Without symmetric memory, each rank has its own copy of the weights and all-reduces gradients.
TEST_F(RanksTest, HaveTheSameBitsWithoutSymmetricMemory) {
  const std::vector<std::vector<std::string>> cases{
      {},
      {"gradient_accumulation_steps=3", "data.even_batches=false"},
      {"gradient_accumulation_steps=12", "data.batch_size=1"},
      {"gradient_accumulation_steps=3", "sync_each_batch=true"},
      {"model.hidden=[256, 256]", "data.batch_size=2"},
      {"comm.hook=fp16"},
      {"comm.hook=bf16", "gradient_accumulation_steps=12", "data.batch_size=1"},
      {"comm.hook=power_sgd", "comm.rank=2", "comm.start=2", "model.hidden=[16, 16]"},
      {"comm.unused=skip", "gradient_accumulation_steps=2"},
      {"mixed_precision=fp16"},
      {"backend=gpu"},
      {"backend=tpu"},
      {"backend=tpu", "mixed_precision=bf16", "gradient_accumulation_steps=12", "data.batch_size=1"},
      {"backend=tpu", "mixed_precision=bf16", "comm.hook=bf16"},
  };
  for (const std::vector<std::string>& each : cases) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(each, " ")));
    std::vector<std::string> overrides = each;
    overrides.push_back("num_processes=3");
    const std::vector<Trained> shared = train(overrides);
    const std::vector<Trained> copied = train(overrides, 0, {}, Transport::kCopies);
    expect_same_on_all_ranks(copied);
    EXPECT_EQ(copied[0].parameters, shared[0].parameters);
    EXPECT_EQ(copied[0].losses, shared[0].losses);
    EXPECT_EQ(copied[0].norms, shared[0].norms);
    EXPECT_EQ(copied[0].evaluated, shared[0].evaluated);
    EXPECT_EQ(copied[0].counters, shared[0].counters);
  }
}

// More than 64 ranks do not add up gradients in the Program of the update.
TEST_F(RanksTest, HaveTheSameBitsWithManyRanks) {
  for (const char* option : {"gradient_accumulation_steps=1", "gradient_accumulation_steps=12", "comm.unused=skip"}) {
    SCOPED_TRACE(option);
    const std::vector<std::string> overrides{"num_processes=70", "data.batch_size=1", "train.epochs=2", option};
    const std::vector<Trained> shared = train(overrides);
    const std::vector<Trained> copied = train(overrides, 0, {}, Transport::kCopies);
    expect_same_on_all_ranks(shared);
    EXPECT_EQ(shared[0].parameters, copied[0].parameters);
    EXPECT_EQ(shared[0].losses, copied[0].losses);
    EXPECT_EQ(shared[0].norms, copied[0].norms);
  }
}

// Weights (256, 256) are exchanged as factors of few samples, also for the uneven or empty parts of the short last
// batch.
TEST_F(RanksTest, ExchangeLargeGradientsAsFactors) {
  for (const char* flags : {"even_batches=true", "even_batches=false"}) {
    const std::vector<std::string> common{"model.hidden=[256, 256]", fmt::format("data.{}", flags),
                                          "split_batches=true", "data.batch_size=10"};
    const Trained alone = train(common).front();
    for (const int processes : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} processes, {}", processes, flags));
      std::vector<std::string> overrides = common;
      overrides.push_back(fmt::format("num_processes={}", processes));
      const std::vector<Trained> ranks = train(overrides);
      expect_same_on_all_ranks(ranks);
      EXPECT_LT(relative_distance(ranks[0].parameters, alone.parameters), 1e-5);
      for (size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 1e-5);
      on_each_rank(overrides, [&](Session& session) {  // no rank has written a gradient
        train(session, 5);
        for (const float gradient : array_of<float>(session.trainer, ArrayRole::kGradients)) ASSERT_EQ(gradient, 0);
      });
    }
  }
}

// Shared memory per parameter, in bytes, of ranks with a model of about a million parameters after a few steps. Some
// ranks have few samples of a step or none.
double shared_bytes_per_parameter(const schema::Recipe& recipe, int64_t optimizer_steps) {
  const auto size = static_cast<int>(recipe.num_processes);
  backends::SharedMemory memory(SharedMemoryGroup::memory_bytes(size));
  const auto taken = [&memory] {
    struct stat status {};
    ::fstat(memory.descriptor(), &status);
    return 512.0 * static_cast<double>(status.st_blocks);
  };
  const double before = taken();
  double result = 0;
  on_threads(memory, size, [&](SharedMemoryGroup& ranks) {
    Session session(recipe, nullptr, &ranks);
    session.trainer.allocate();
    data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
    for (int64_t step_result = 0; step_result < optimizer_steps; ++step_result)
      session.trainer.stepper().run(loader, {.factor = session.schedule.factor(step_result)});
    ranks.barrier({"trained"});
    if (ranks.rank() == 0)
      result = (taken() - before) / static_cast<double>(session.trainer.model().parameters.elements());
    ranks.barrier({"looked at"});
  });
  return result;
}

// Weights and momenta once; on a GPU the sums of buckets, on a TPU the rounded weights. Gradients of each rank only if
// they are not factored.
TEST_F(RanksTest, CommitOnlySharedMemoryThatIsWritten) {
  for (const auto& [backend, expected] : {std::pair{"cpu", 8}, {"gpu", 12}, {"tpu", 10}})
    for (const auto& [accumulation, gradients] : {std::pair{1, 0}, {2, 6 * 4}}) {
      const std::vector<std::string> overrides{"model.hidden=[1000, 1000]",
                                               "num_processes=6",
                                               "split_batches=true",
                                               "data.even_batches=false",
                                               "data.batch_size=9",
                                               fmt::format("backend={}", backend),
                                               fmt::format("gradient_accumulation_steps={}", accumulation)};
      EXPECT_NEAR(shared_bytes_per_parameter(recipe(overrides).recipe, 5), expected + gradients, 1)
          << backend << ", accumulation " << accumulation;
    }
}

// On a device that rounds the operands of products, the one copy of weights that all ranks round equals the rounded
// weights. Sums in another order are rounded differently; weights of the previous step would differ more.
TEST_F(RanksTest, ShareOneRoundedCopyOfTheWeights) {
  for (const char* step_result : {"gradient_accumulation_steps=1", "gradient_accumulation_steps=3"}) {
    const std::vector<std::string> common{"backend=tpu", "split_batches=true", "data.batch_size=12", step_result};
    std::vector<std::string> one = common, three = common;
    one.push_back("num_processes=1");
    three.push_back("num_processes=3");
    const Trained alone = train(one).front();
    const std::vector<Trained> ranks = train(three);
    expect_same_on_all_ranks(ranks);
    EXPECT_LT(relative_distance(ranks[0].parameters, alone.parameters), 0.02);
    for (size_t i = 0; i < alone.losses.size(); ++i) {
      EXPECT_NEAR(ranks[0].losses[i], alone.losses[i], 5e-3);
      EXPECT_NEAR(ranks[0].norms[i], alone.norms[i], 0.05 * alone.norms[i]);
      EXPECT_GT(alone.norms[i], 0);
    }
  }
}

// Within an optimizer step, each rank has the sum over its own batches. The result does not depend on how often ranks
// could save a checkpoint.
TEST_F(RanksTest, AccumulateTheirOwnBatches) {
  const std::vector<std::string> common{"gradient_accumulation_steps=3", "split_batches=true", "data.batch_size=12"};
  const auto sums = [&](int processes) {
    std::vector<std::string> overrides = common;
    overrides.push_back(fmt::format("num_processes={}", processes));
    overrides.push_back("sync_each_batch=true");
    std::vector<std::vector<std::vector<float>>> found(static_cast<size_t>(processes));  // by rank and batch
    on_each_rank(overrides, [&](Session& session) {
      session.trainer.allocate();
      data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
      BatchFeed batches = session.trainer.stepper().feed(loader);
      StepResult step_result;
      while (!step_result.done) {
        session.trainer.stepper().advance(batches, {}, step_result);
        found[static_cast<size_t>(session.rank())].push_back(array_of<float>(session.trainer, ArrayRole::kGradients));
      }
      EXPECT_EQ(step_result.batches, 3);
    });
    return found;
  };
  const std::vector<std::vector<float>> alone = sums(1).front();
  for (const int processes : {2, 3, 5}) {
    const auto by_rank = sums(processes);
    for (const size_t batch : {size_t{0}, size_t{1}}) {
      std::vector<float> together(alone[batch].size());
      for (const auto& rank : by_rank)
        for (size_t i = 0; i < together.size(); ++i) together[i] += rank[batch][i];
      EXPECT_LT(relative_distance(together, alone[batch]), 1e-6) << processes << " processes, batch " << batch;
      EXPECT_GT(relative_distance(by_rank[0][batch], alone[batch]), 0.1);
    }
  }
}

TEST_F(RanksTest, SyncEachBatchDoesNotChangeTheBits) {
  for (const char* setting : {"comm.hook=none", "comm.hook=bf16", "comm.unused=skip", "backend=gpu", "backend=tpu"}) {
    SCOPED_TRACE(setting);
    std::vector<std::string> overrides{"num_processes=3", "data.batch_size=1", "gradient_accumulation_steps=12",
                                       setting};
    const Trained once = train(overrides).front();
    overrides.emplace_back("sync_each_batch=true");
    const Trained each = train(overrides).front();
    EXPECT_EQ(each.parameters, once.parameters);
    EXPECT_EQ(each.losses, once.losses);
    EXPECT_EQ(each.norms, once.norms);
  }
}

// One step of plain gradient descent at rate 1 moves the parameters by the gradient.
TEST_F(RanksTest, MatchTheGradientOfOneLargeBatch) {
  const std::vector<std::string> common{"optimizer={type: sgd, lr: 1.0}", "train.clip_grad_norm=null"};
  std::vector<std::string> large = common;
  large.push_back("data.batch_size=37");
  const Trained alone = train(large, 1).front();
  for (const int processes : {1, 2, 3, 4, 8})
    for (const auto& [accumulation, each] : {std::pair{1, "false"}, {2, "false"}, {5, "false"}, {5, "true"}}) {
      SCOPED_TRACE(fmt::format("{} processes, K {}, sync_each_batch {}", processes, accumulation, each));
      std::vector<std::string> overrides = common;
      // The optimizer step is the epoch.
      const int batch = (37 + processes * accumulation - 1) / (processes * accumulation);
      overrides.push_back(fmt::format("data.batch_size={}", batch));
      overrides.push_back(fmt::format("num_processes={}", processes));
      overrides.push_back(fmt::format("gradient_accumulation_steps={}", accumulation));
      overrides.push_back(fmt::format("sync_each_batch={}", each));
      const std::vector<Trained> ranks = train(overrides, 1);
      EXPECT_EQ(ranks[0].samples, std::vector<int64_t>{37});
      EXPECT_LT(relative_distance(ranks[0].parameters, alone.parameters), 1e-6);
      EXPECT_NEAR(ranks[0].losses[0], alone.losses[0], 1e-6);
    }
}

// Starting from zeros, one step of plain gradient descent at rate 1 leaves the gradient itself.
TEST_F(RanksTest, CommHookRoundsGradients) {
  const std::string zeros(18 * sizeof(float), 0);
  const auto bytes = std::as_bytes(std::span(zeros));
  formats::write_safetensors("zeros.safetensors", {{"0.weight", backends::DType::kF32, {3, 6}, bytes},
                                                   {"0.bias", backends::DType::kF32, {3}, bytes.first(12)}});
  const auto gradient = [](const char* hook) {
    const std::vector<Trained> ranks =
        train({"model.type=linear", "model.hidden=null", "model.dropout=null", "model.init_from=zeros.safetensors",
               "optimizer={type: sgd, lr: 1.0}", "num_processes=3", "train.clip_grad_norm=null",
               fmt::format("comm.hook={}", hook)},
              1);
    expect_same_on_all_ranks(ranks);
    return ranks.front().parameters;
  };
  const std::vector<float> exact = gradient("none");
  for (const auto& [hook, half, bits] :
       {std::tuple{"fp16", backends::DType::kF16, 11}, {"bf16", backends::DType::kBf16, 8}}) {
    SCOPED_TRACE(hook);
    const std::vector<float> rounded = gradient(hook);
    EXPECT_NE(rounded, exact);
    for (size_t i = 0; i < exact.size(); ++i) {
      std::array<std::byte, 2> stored{};
      backends::store_element(half, rounded[i], stored.data());
      EXPECT_EQ(backends::load_element(half, stored.data()), rounded[i]) << i;
      EXPECT_NEAR(rounded[i], exact[i], std::ldexp(1.0, 1 - bits)) << i;  // parts of three ranks, none above 1
    }
  }
}

// A rank begins the next optimizer step while others still read its sums.
TEST_F(RanksTest, LongStepsAreReproducible) {
  const std::vector<std::string> common{"num_processes=4", "data.batch_size=1", "gradient_accumulation_steps=100",
                                        "train.epochs=8"};
  for (const char* setting : {"comm.hook=bf16", "comm.hook=fp16", "comm.unused=skip", "sync_each_batch=true"}) {
    SCOPED_TRACE(setting);
    std::vector<std::string> overrides = common;
    overrides.emplace_back(setting);
    const std::vector<Trained> first = train(overrides);
    expect_same_on_all_ranks(first);
    for (int again = 0; again < 3; ++again) {
      const Trained other = train(overrides).front();
      EXPECT_EQ(other.parameters, first[0].parameters);
      EXPECT_EQ(other.losses, first[0].losses);
    }
  }
}

// Also if each device has a thread of its own, with more threads than cores.
TEST_F(RanksTest, AreBitIdenticalOnCpuAndGpus) {
  const std::vector<std::vector<std::string>> cases{
      {},
      {"gradient_accumulation_steps=3"},
      {"gradient_accumulation_steps=3", "sync_each_batch=true"},
      {"data.even_batches=false", "data.train.samples=33"},
      {"comm.hook=fp16"},
      {"model.hidden=[256, 256]", "gpu.bucket_cap=64 KiB"},
      {"gpu.launch_blocking=true", "gpu.bucket_cap=1 B"},
      {"gpu.capture=true", "train.epochs=6"},
  };
  for (const std::vector<std::string>& one : cases) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(one, " ")));
    std::vector<std::string> on_cpu{"num_processes=3"}, on_gpu{"num_processes=3", "backend=gpu"};
    for (const std::string& override : one) {
      on_gpu.push_back(override);
      if (!override.starts_with("gpu.")) on_cpu.push_back(override);
    }
    const Trained expected = train(on_cpu).front();
    for (const bool own_thread : {false, true}) {
      SCOPED_TRACE(own_thread);
      const std::vector<Trained> ranks = train(on_gpu, 0, own_thread);
      expect_same_on_all_ranks(ranks);
      EXPECT_EQ(ranks[0].parameters, expected.parameters);
      EXPECT_EQ(ranks[0].losses, expected.losses);
      EXPECT_EQ(ranks[0].norms, expected.norms);
      EXPECT_EQ(ranks[0].evaluated, expected.evaluated);
    }
  }
}

// Linear regression by gradient descent with momentum, written out. Each rank takes its own steps, and weights and
// momenta are averaged over ranks after every second step.
class LocalDescent {
 public:
  LocalDescent(int ranks, const std::vector<float>& initial) : models_(static_cast<size_t>(ranks)) {
    for (Model& model : models_) model = {{initial.begin(), initial.end()}, std::vector<double>(initial.size())};
  }

  // Takes the samples of one rank's optimizer step.
  void step(int rank, const std::vector<std::vector<float>>& features, const std::vector<std::vector<float>>& targets) {
    Model& model = models_[static_cast<size_t>(rank)];
    std::vector<double> gradient(model.weights.size());
    const size_t width = features.front().size(), outputs = targets.front().size();
    for (size_t s = 0; s < features.size(); ++s)
      for (size_t k = 0; k < outputs; ++k) {
        double error = model.weights[outputs * width + k] - targets[s][k];
        for (size_t i = 0; i < width; ++i) error += model.weights[k * width + i] * features[s][i];
        const double slope = 2 * error / static_cast<double>(outputs * features.size());
        for (size_t i = 0; i < width; ++i) gradient[k * width + i] += slope * features[s][i];
        gradient[outputs * width + k] += slope;
      }
    for (size_t i = 0; i < gradient.size(); ++i) {
      model.momentum[i] = 0.9 * model.momentum[i] + gradient[i];
      model.weights[i] -= 0.05 * model.momentum[i];
    }
  }

  void average() {
    Model mean{std::vector<double>(models_[0].weights.size()), std::vector<double>(models_[0].weights.size())};
    for (const Model& model : models_)
      for (size_t i = 0; i < mean.weights.size(); ++i) {
        mean.weights[i] += model.weights[i] / static_cast<double>(models_.size());
        mean.momentum[i] += model.momentum[i] / static_cast<double>(models_.size());
      }
    models_.assign(models_.size(), mean);
  }

  std::vector<float> weights(int rank) const {
    const std::vector<double>& weights = models_[static_cast<size_t>(rank)].weights;
    return {weights.begin(), weights.end()};
  }

 private:
  struct Model {
    std::vector<double> weights, momentum;
  };
  std::vector<Model> models_;
};

TEST_F(RanksTest, LocalSgdAveragesSeparateWeights) {
  constexpr int kRanks = 3;
  const std::vector<std::string> overrides{"model.type=linear",
                                           "model.hidden=null",
                                           "model.dropout=null",
                                           "data.train={format: synthetic, samples: 48, features: [6], targets: 2}",
                                           "data.eval={format: synthetic, samples: 10, features: [6], targets: 2}",
                                           "data.batch_size=4",
                                           "optimizer={type: sgd, lr: 0.05, momentum: 0.9}",
                                           "train={epochs: 4, local_sgd: {every: 2 steps}}",
                                           "train.clip_grad_norm=null",
                                           "train.class_weights=null",
                                           "eval={metrics: [loss]}",
                                           "gradient_accumulation_steps=2",
                                           fmt::format("num_processes={}", kRanks)};
  std::vector<std::vector<float>> apart(kRanks), averaged(kRanks), expected_separate(kRanks), expected(kRanks);
  on_each_rank(overrides, [&](Session& session) {
    const auto rank = static_cast<size_t>(session.rank());
    session.trainer.allocate();
    std::vector<std::unique_ptr<data::Loader>> again;  // of all ranks: what each reads
    for (int each = 0; each < kRanks; ++each)
      again.push_back(std::make_unique<data::Loader>(session.data.train, session.plan,
                                                     data::LoaderSpec{.seed = session.data_seed(), .rank = each}));
    data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
    LocalDescent reference(kRanks, array_of<float>(session.trainer, ArrayRole::kParameters));
    for (int64_t step = 1; step <= session.length.total_steps; ++step) {
      EXPECT_EQ(session.trainer.stepper().run(loader, {}).batches, 2);
      for (int each = 0; each < kRanks; ++each) {
        std::vector<std::vector<float>> features, targets;
        for (int batch = 0; batch < 2; ++batch) {
          const data::Batch& read = again[static_cast<size_t>(each)]->next();
          for (size_t s = 0; s < static_cast<size_t>(read.size); ++s) {
            features.emplace_back(read.features().begin() + s * 6, read.features().begin() + s * 6 + 6);
            targets.emplace_back(read.targets.begin() + s * 2, read.targets.begin() + s * 2 + 2);
          }
        }
        reference.step(each, features, targets);
      }
      if (step == 3) {
        apart[rank] = array_of<float>(session.trainer, ArrayRole::kParameters);
        expected_separate[rank] = reference.weights(static_cast<int>(session.rank()));
      }
      if (step % 2 != 0) continue;
      session.trainer.on_host_event(backends::HostEvent::kStateUse);
      average_weights(session.trainer.arrays(), *session.ranks, {"weights", session.trainer.counters.steps + 1});
      session.trainer.means().gather();
      reference.average();
    }
    averaged[rank] = array_of<float>(session.trainer, ArrayRole::kParameters);
    expected[rank] = reference.weights(static_cast<int>(session.rank()));
  });
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_LT(relative_distance(apart[rank], expected_separate[rank]), 1e-5);
    EXPECT_LT(relative_distance(averaged[rank], expected[rank]), 1e-5);
    EXPECT_EQ(averaged[rank], averaged[0]);
    EXPECT_EQ(apart[rank] == apart[0], rank == 0);
  }
}

TEST_F(RanksTest, MoreRanksThanSamples) {
  const std::vector<Trained> ranks =
      train({"num_processes=5", "data.train.samples=3", "data.batch_size=1", "data.even_batches=false"});
  expect_same_on_all_ranks(ranks);
  const Trained alone = train({"data.train.samples=3", "data.batch_size=5"}).front();
  EXPECT_LT(relative_distance(ranks[0].parameters, alone.parameters), 1e-5);
}

}  // namespace
}  // namespace runner::train
