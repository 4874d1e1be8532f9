// Buckets in which GPUs reduce gradients: their contents, and that reducing bucket by bucket gives the same bits as
// reducing everything at once, for every comm.hook.
#include "runner/train/step/gradient_buckets.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/backends/support/on_threads.h"
#include "tests/support/temp_folder.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_threads;

class GradientBucketsTest : public ::testing::Test {
 protected:
  GradientBucketsTest() {
    support::write_text("r.yaml", R"(schema_version: 1
seed: 3
num_processes: 3
threads: 1
model: {type: mlp, hidden: [40, 24, 16]}
data:
  train: {format: synthetic, samples: 61, features: [10], classes: 3}
  batch_size: 4
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 2, clip_grad_norm: 1.0}
)");
  }

  static schema::Recipe recipe(std::vector<std::string> overrides) {
    return schema::read_recipe("r.yaml", overrides).recipe;
  }

  // Returns all parameters after one and a half epochs of optimizer steps.
  static std::vector<std::byte> trained(const schema::Recipe& recipe, std::optional<bool> own_thread = {}) {
    std::vector<std::byte> parameters;
    on_threads(static_cast<int>(recipe.num_processes), [&](SharedMemoryGroup& ranks) {
      Session session(recipe, nullptr, &ranks, nullptr, own_thread);
      session.trainer.allocate();
      data::Loader loader(session.data.train, session.plan, {.seed = session.data_seed(), .rank = session.rank()});
      const int64_t steps = session.plan.optimizer_steps(1) * 3 / 2;
      for (int64_t result = 0; result < steps; ++result)
        session.trainer.stepper().run(loader, {.factor = session.schedule.factor(result)});
      ranks.barrier({"trained"});
      if (ranks.rank() == 0)
        for (size_t i = 0; i < session.trainer.layout().arrays().size(); ++i)
          if (session.trainer.layout().arrays()[i].role == ArrayRole::kParameters) {
            const std::vector<std::byte> array = session.trainer.arrays().read(static_cast<int32_t>(i));
            parameters.insert(parameters.end(), array.begin(), array.end());
          }
      ranks.barrier({"read"});
    });
    return parameters;
  }

 private:
  const support::TempFolder folder_;
  const support::CurrentFolder inside_{folder_.path()};
};

// Frozen parameters are in no bucket. Gaps between the parameters of a bucket belong to its pieces.
TEST_F(GradientBucketsTest, ContainTrainedParameters) {
  for (const char* cap : {"1 B", "2 KiB", "25 MiB"}) {
    const schema::Recipe of = recipe({"backend=gpu", "num_processes=1", "gradient_accumulation_steps=2",
                                      fmt::format("gpu.bucket_cap={}", cap), "model.freeze=[\"2.*\"]"});
    const Session session(of);
    const nn::ParameterSet& parameters = session.trainer.model().parameters;
    const GradientBuckets buckets(session.trainer.builder(), of.gpu.bucket_cap);
    size_t trained = 0;
    int64_t elements = 0, reduced = 0;
    for (size_t b = 0; b < buckets.size(); ++b) {
      for (const nn::ParameterId id : buckets[b]) {
        ++trained;
        elements += parameters[id].elements();
        EXPECT_GE(parameters.buffers()[static_cast<size_t>(parameters[id].buffer)].group, 0) << parameters[id].name;
      }
      EXPECT_FALSE(buckets.pieces(b).empty());
    }
    EXPECT_EQ(trained, parameters.parameters().size() - 2) << cap;
    for (const backends::ReducedBytes& part : buckets.reduced())
      reduced += static_cast<int64_t>(part.bytes.end - part.bytes.begin);
    EXPECT_GE(reduced, elements * static_cast<int64_t>(sizeof(float))) << cap;
    EXPECT_EQ(buckets.reduced().back().bucket, static_cast<int32_t>(buckets.size()) - 1);
  }
}

TEST_F(GradientBucketsTest, AreBitIdenticalToReducingAtOnce) {
  struct Case {
    const char* what;
    std::vector<std::string> overrides;
  };
  const Case cases[] = {
      {"gradients as factors", {}},
      {"gradients in their arrays", {"data.batch_size=60", "data.train.samples=400"}},
      {"windows of two batches", {"gradient_accumulation_steps=2"}},
      {"sums of each batch", {"gradient_accumulation_steps=2", "sync_each_batch=true"}},
      {"a layer that is frozen", {"model.freeze=[\"2.*\"]"}},
      {"groups", {"optimizer={type: adamw, lr: 0.01, groups: [{params: [\"*.bias\"], weight_decay: 0}]}"}},
      {"ranks without a batch", {"data.train.samples=14", "data.even_batches=false"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const std::vector<std::byte> expected = trained(recipe(one.overrides));
    for (const char* cap : {"1 B", "2 KiB", "6 KiB", "25 MiB"}) {
      std::vector<std::string> overrides = one.overrides;
      overrides.insert(overrides.end(), {"backend=gpu", fmt::format("gpu.bucket_cap={}", cap)});
      for (const bool own_thread : {false, true})
        EXPECT_EQ(trained(recipe(overrides), own_thread), expected) << cap << (own_thread ? ", with threads" : "");
    }
  }
}

}  // namespace
}  // namespace runner::train
