// Several threads that assemble batches: order, waiting, and traces.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/runtime/spans.h"
#include "runner/data/loader.h"
#include "tests/data/batches.h"

namespace runner::data {
namespace {

using LoaderThreadsTest = CountingTest;

// The plan has two batches per epoch whose samples do not exist. Several threads fail, each at its own batch. The
// consumer gets all batches before the first of them in plan order, and then its error.
TEST_F(LoaderThreadsTest, ThrowsTheFirstErrorInPlanOrder) {
  const Dataset data = counting(400);

  for (int round = 0; round < 100; ++round) {
    const DataPlan plan({.samples = 408, .batch_size = 1 + round % 4});
    Loader loader(data, plan, {.shuffle = false, .prefetch = 64, .threads = 4});
    int64_t next = 0;
    std::string message;
    try {
      for (;;) {
        for (const int64_t id : loader.next().ids) ASSERT_EQ(id, next++);
      }
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "sample 400 does not exist in data.train, which has 400");
    EXPECT_EQ(next, 400 / plan.spec().batch_size * plan.spec().batch_size);
  }
}

// A batch of 30,000 samples takes long to assemble; the tiny batch after it is complete much earlier.
TEST_F(LoaderThreadsTest, KeepsOrderIfALaterBatchIsReadyEarlier) {
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kSynthetic;
  spec.train.samples = 30'001;
  spec.train.feature_shape = {16};
  spec.train.classes = 2;
  const Dataset data = load(spec, 0).train;
  const DataPlan plan({.samples = data.size(), .batch_size = 30'000});
  Loader loader(data, plan, {.seed = 2, .threads = 2});
  for (int64_t step = 0; step < 20; ++step) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.position, (Position{step / 2, step % 2}));
    EXPECT_EQ(batch.size, step % 2 == 0 ? 30'000 : 1);
    std::vector<float> alone(static_cast<size_t>(batch.size) * 16);
    data.gather_features(batch.ids, alone);
    ASSERT_EQ(alone, std::vector<float>(batch.features().begin(), batch.features().end()));
  }
}

// The batches are so large that the ring has three slots: the consumer waits for one while it holds the two others.
TEST_F(LoaderThreadsTest, PrefetchOfOneDoesNotDeadlock) {
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kSynthetic;
  spec.train.samples = 64;
  spec.train.feature_shape = {4096};
  spec.train.classes = 2;
  const Dataset data = load(spec, 0).train;
  const DataPlan plan({.samples = data.size(), .batch_size = 16});
  Loader loader(data, plan, {.prefetch = 1});
  for (int64_t step = 0; step < 40; ++step) {
    int64_t looks = 0;
    ASSERT_TRUE(loader.wait([&] { return ++looks > 500; })) << "no batch within ten seconds in step " << step;
    EXPECT_EQ(loader.next().position.step, step % 4);
  }
}

TEST_F(LoaderThreadsTest, PeekReturnsTheNextBatch) {
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 10});
  const auto never = [] { return false; };
  Loader loader(data, plan, {.shuffle = false, .epochs = 1});
  for (int64_t step = 0; step < 5; ++step) {
    const Batch* const next = loader.peek(never);
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(next->ids.front(), 10 * step);
    EXPECT_EQ(loader.peek(never), next);
    EXPECT_EQ(&loader.next(), next);
  }
  EXPECT_EQ(loader.peek(never), nullptr) << "an error comes next";
  EXPECT_THROW(loader.next(), Error);
  Loader sequential(data, plan, {.shuffle = false, .prefetch = 0});
  EXPECT_EQ(sequential.peek(never), nullptr);
  EXPECT_EQ(sequential.next().ids.front(), 0);
}

// Each loader thread has a name in the trace and assembles some batches.
TEST_F(LoaderThreadsTest, NamesItsThreads) {
  const Dataset data = counting(50);
  const DataPlan plan({.samples = 50, .batch_size = 10});
  for (const int64_t threads : {1, 3}) {
    backends::SpanRecorder recorder;
    const backends::RecordingThread recording(&recorder, "training");
    recorder.begin();
    {
      Loader loader(data, plan, {.threads = threads});
      for (int i = 0; i < 100; ++i) loader.next();
    }
    std::vector<std::string> names = recorder.threads();
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, threads == 1 ? (std::vector<std::string>{"loader", "training"})
                                  : (std::vector<std::string>{"loader 1", "loader 2", "loader 3", "training"}));
    int64_t made = 0;
    for (const backends::Span& span : recorder.end()) {
      if (span.name != "make batch") continue;
      EXPECT_NE(recorder.threads()[static_cast<size_t>(span.thread)], "training");
      ++made;
    }
    EXPECT_GE(made, 100);
  }
}

}  // namespace
}  // namespace runner::data
