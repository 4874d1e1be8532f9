// BatchFeed: order of the batches, when each is staged, and errors.
#include "runner/train/engine/batch_feed.h"

#include <atomic>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "runner/train/engine/step_arguments.h"
#include "schema/base/error.h"
#include "tests/backends/support/inert_device.h"
#include "tests/data/batches.h"

namespace runner::train {
namespace {

// Computes nothing and records the ids of staged samples.
class StagingDevice final : public backends::testing::InertDevice, private backends::DeviceStreams {
 public:
  explicit StagingDevice(bool can_stage = true) : can_stage_(can_stage) {}

  std::vector<std::vector<int64_t>> staged;
  int dropped = 0;
  bool is_full = false;

  backends::DeviceStreams* streams() override { return can_stage_ ? this : nullptr; }

 private:
  uint64_t stage(const backends::Executable&, std::span<const std::span<const std::byte>> inputs) override {
    if (is_full) throw backends::OutOfMemory("it is full", 2, 1);
    const std::span<const std::byte> ids = inputs[1 + kSampleIds];
    const auto* const first = reinterpret_cast<const int64_t*>(ids.data());
    staged.emplace_back(first, first + ids.size() / sizeof(int64_t));
    return 100 + staged.size();
  }
  bool has_staged(uint64_t) const override { return false; }
  void drop_staged() noexcept override { ++dropped; }
  std::shared_ptr<backends::Event> make_event() override { return nullptr; }
  void record(backends::Event&) override {}

  const bool can_stage_;
};

using Ids = std::vector<int64_t>;

Ids ids_of(const data::Batch& batch) {
  return {batch.ids.begin(), batch.ids.end()};
}

data::Encoding encoding_of_classes() {
  data::Encoding encoding;
  encoding.label_kind = data::LabelKind::kClass;
  return encoding;
}

// 10 samples in order, 4 per batch.
class BatchFeedTest : public data::CountingTest {
 protected:
  data::Loader loader(data::LoaderSpec spec) {
    spec.shuffle = false;
    return data::Loader(data_, data::DataPlan({.samples = 10, .batch_size = 4}), spec);
  }

  const data::Dataset data_ = counting(10);
  const data::Encoding encoding_ = encoding_of_classes();
  const backends::testing::InertExecutable step_ = {};
  const GradAccumulation whole_ = {};
};

TEST_F(BatchFeedTest, StagesEachBatchAfterThePreviousOne) {
  StagingDevice device;
  data::Loader batches = loader({.epochs = 2});
  const std::vector<Ids> expected{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}};
  {
    BatchFeed feed(batches, {}, device, encoding_);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(ids_of(feed.next()), expected[i]) << i;
      EXPECT_EQ(feed.staged(), i == 0 ? 0 : 100 + i) << "the first batch cannot be staged";
      EXPECT_EQ(device.staged.size(), i);
      feed.stage_next(step_, whole_);
      feed.stage_next(step_, whole_);
    }
    EXPECT_EQ(device.staged, std::vector<Ids>(expected.begin() + 1, expected.end()))
        << "each batch once, and none after the last";
    EXPECT_EQ(device.dropped, 0);
    EXPECT_THROW(feed.next(), Error);
  }
  EXPECT_EQ(device.dropped, 1);
}

TEST_F(BatchFeedTest, StagesTheFirstMicroBatch) {
  StagingDevice device;
  data::Loader batches = loader({});
  BatchFeed feed(batches, {}, device, encoding_);
  feed.next();
  feed.stage_next(step_, {.max_micro_batch = 3});
  EXPECT_EQ(device.staged, (std::vector<Ids>{{4, 5, 6}}));
}

TEST_F(BatchFeedTest, ABatchThatWasNotStagedHasNoTicket) {
  StagingDevice device;
  data::Loader batches = loader({});
  BatchFeed feed(batches, {}, device, encoding_);
  feed.next();
  feed.stage_next(step_, whole_);
  feed.next();
  EXPECT_EQ(feed.staged(), 101u);
  EXPECT_EQ(ids_of(feed.next()), (Ids{8, 9}));
  EXPECT_EQ(feed.staged(), 0u);
}

// Taking the batch throws, once; work in flight when it should have been staged continues.
TEST_F(BatchFeedTest, ABatchThatRunsOutOfMemoryIsNotStaged) {
  StagingDevice device;
  data::Loader batches = loader({});
  BatchFeed feed(batches, {}, device, encoding_);
  feed.next();
  device.is_full = true;
  feed.stage_next(step_, whole_);
  EXPECT_EQ(ids_of(feed.next()), (Ids{4, 5, 6, 7}));
  EXPECT_EQ(feed.staged(), 0u);
  EXPECT_THROW(feed.throw_failure(), backends::OutOfMemory);
  feed.throw_failure();
  device.is_full = false;
  feed.stage_next(step_, whole_);
  feed.next();
  EXPECT_EQ(feed.staged(), 101u);
}

// On a device without streams, and with a loader that does not prefetch.
TEST_F(BatchFeedTest, StagesNothingWithoutStreamsOrPrefetching) {
  for (const bool can_stage : {false, true}) {
    StagingDevice device(can_stage);
    data::Loader batches = loader({.prefetch = can_stage ? 0 : 4});
    {
      BatchFeed feed(batches, {}, device, encoding_);
      for (const Ids& expected : {Ids{0, 1, 2, 3}, Ids{4, 5, 6, 7}}) {
        EXPECT_EQ(ids_of(feed.next()), expected);
        EXPECT_EQ(feed.staged(), 0u);
        feed.stage_next(step_, whole_);
      }
    }
    EXPECT_TRUE(device.staged.empty());
    EXPECT_EQ(device.dropped, can_stage ? 1 : 0);
  }
}

class FailingTransform final : public data::Transform {
 public:
  void apply(const data::Sample& sample) override {
    if (sample.id == 5) throw std::runtime_error("sample 5 is bad");
  }
};

// An error of a batch is thrown when it is taken, not when the feed looks ahead.
TEST_F(BatchFeedTest, ALoaderErrorIsThrownWithItsBatch) {
  StagingDevice device;
  data::Loader batches = loader({.transform = std::make_shared<FailingTransform>()});
  BatchFeed feed(batches, {}, device, encoding_);
  feed.next();
  EXPECT_NO_THROW(feed.stage_next(step_, whole_));
  EXPECT_TRUE(device.staged.empty());
  EXPECT_THROW(feed.next(), std::runtime_error);
}

// A feed that is asked to stop waits for no batch.
TEST_F(BatchFeedTest, StagesNothingAfterGivingUp) {
  class Slow final : public data::Transform {
   public:
    explicit Slow(const std::atomic<bool>& continues) : continues_(continues) {}
    void apply(const data::Sample& sample) override {
      while (sample.id >= 4 && !continues_.load()) std::this_thread::yield();
    }

   private:
    const std::atomic<bool>& continues_;
  };
  std::atomic<bool> continues{false};
  StagingDevice device;
  data::Loader batches = loader({.transform = std::make_shared<Slow>(continues)});
  bool gives_up = false;
  BatchFeed feed(
      batches, [&] { return gives_up; }, device, encoding_);
  feed.next();
  gives_up = true;
  feed.stage_next(step_, whole_);
  EXPECT_TRUE(device.staged.empty());
  continues = true;
}

}  // namespace
}  // namespace runner::train
