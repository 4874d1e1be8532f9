// Buckets in which GPUs reduce gradients: their contents, and that reducing bucket by bucket gives the same bits as
// reducing everything at once, for every comm.hook.
#include "runner/train/step/gradient_buckets.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/backends/support/on_threads.h"
#include "tests/train/small_run.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;
using backends::testing::on_threads;

class GradientBucketsTest : public SmallRun {
 protected:
  GradientBucketsTest() : SmallRun("40, 24, 16") {}

  static std::vector<std::byte> trained(const schema::Recipe& recipe, std::optional<bool> own_thread = {}) {
    std::vector<std::byte> parameters;
    on_threads(static_cast<int>(recipe.num_processes), [&](SharedMemoryGroup& ranks) {
      Session session(recipe, nullptr, &ranks, nullptr, own_thread);
      session.trainer.allocate();
      std::vector<std::byte> all = SmallRun::trained(session, ranks);
      if (ranks.rank() == 0) parameters = std::move(all);
    });
    return parameters;
  }
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
