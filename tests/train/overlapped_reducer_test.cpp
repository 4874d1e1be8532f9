// Gradients that hosts reduce during the backward pass: the bits of ranks that share memory, and errors on the way.
#include "runner/train/engine/overlapped_reducer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/backends/support/memory_network.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/small_run.h"

namespace runner::train {
namespace {

using backends::HostsGroup;
using backends::ProcessGroup;
using backends::Signal;
using backends::testing::errors_on_hosts;
using backends::testing::on_hosts;
using backends::testing::on_threads;

// Three buckets: each of the two large layers ends one.
class OverlappedReducerTest : public SmallRun {
 protected:
  OverlappedReducerTest() : SmallRun("1030, 1030, 1030") {}

  static std::vector<std::byte> trained(const schema::Recipe& recipe, ProcessGroup& ranks) {
    Session session(recipe, nullptr, &ranks);
    session.trainer.allocate();
    EXPECT_EQ(session.trainer.arrays().overlapped_reducer() != nullptr, ranks.spans_hosts());
    EXPECT_EQ(session.trainer.arrays().are_shared(), ranks.host_ranks()->size() > 1);
    return SmallRun::trained(session, ranks);
  }
};

TEST_F(OverlappedReducerTest, GivesTheBitsOfSharedMemory) {
  struct Variant {
    const char* what;
    std::vector<std::string> overrides;
  };
  const Variant variants[] = {
      {"a batch a step", {}},
      {"batches of a step", {"gradient_accumulation_steps=2"}},
      {"sums of each batch", {"gradient_accumulation_steps=2", "sync_each_batch=true"}},
      {"a layer that is frozen", {"model.freeze=[\"2.*\"]"}},
      {"groups", {"optimizer={type: adamw, lr: 0.01, groups: [{params: [\"*.bias\"], weight_decay: 0}]}"}},
      {"averages of the weights", {"train.ema.decay=0.9"}},
      {"sgd", {"optimizer={type: sgd, lr: 0.01, momentum: 0.9}", "train.clip_grad_value=0.01"}},
      {"ranks without a batch", {"data.train.samples=14", "data.even_batches=false"}},
  };
  for (const Variant& one : variants) {
    SCOPED_TRACE(one.what);
    const schema::Recipe of = recipe(one.overrides);
    std::vector<std::byte> expected;
    on_threads(3, [&](backends::SharedMemoryGroup& ranks) {
      std::vector<std::byte> parameters = trained(of, ranks);
      if (ranks.rank() == 0) expected = std::move(parameters);
    });
    for (const std::vector<int>& hosts : {std::vector{1, 2}, {2, 1}, {1, 1, 1}})
      on_hosts(hosts, [&](HostsGroup& ranks) { EXPECT_TRUE(trained(of, ranks) == expected) << hosts.size(); });
  }
}

// Calls `body` on two hosts with a reducer and the gradients that it reduces: those of rank r are all r + 1.
using Body = std::function<void(HostsGroup& ranks, OverlappedReducer& reducer, const std::vector<float>& gradients)>;
std::vector<std::string> errors_with_reducer(const schema::Recipe& recipe, const Body& body) {
  return errors_on_hosts({1, 1}, [&](HostsGroup& ranks) {
    const Session session(recipe, nullptr, &ranks);
    const std::span<const nn::FlatBuffer> buffers = session.trainer.model().parameters.buffers();
    ASSERT_EQ(buffers.size(), 1U);
    std::vector<float> gradients(static_cast<size_t>(buffers[0].elements), static_cast<float>(ranks.rank() + 1));
    OverlappedReducer reducer(session.trainer.builder(), {reinterpret_cast<std::byte*>(gradients.data())}, ranks);
    body(ranks, reducer, gradients);
  });
}

void record(const Signal& signal) {
  static_cast<backends::CalledEvent*>(signal.event)->record();
}

TEST_F(OverlappedReducerTest, ReducesInOneOrderHoweverBucketsBecomeReady) {
  const auto errors = errors_with_reducer(recipe({"num_processes=2"}), [](auto& ranks, auto& reducer, auto& gradients) {
    for (int64_t step = 1; step <= 2; ++step) {
      const std::span<const Signal> signals = reducer.begin(step);
      EXPECT_GE(signals.size(), 3U);
      if (ranks.rank() == 0) std::ranges::for_each(signals, record);
      if (ranks.rank() == 1) std::ranges::for_each(signals | std::views::reverse, record);
      reducer.finish();
      EXPECT_EQ(gradients, std::vector<float>(gradients.size(), step == 1 ? 3.0f : 6.0f));
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(2, "no error"));
}

// Rank 0 fails when one of its buckets is ready, and rank 1 gets its reason. No host answers before: rank 0 must not
// wait for the bucket that it has begun.
TEST_F(OverlappedReducerTest, AbandonsABackwardPassThatFails) {
  std::atomic<bool> has_failed = false;
  const auto errors = errors_with_reducer(recipe({"num_processes=2"}), [&](auto& ranks, auto& reducer, auto&) {
    const std::span<const Signal> signals = reducer.begin(5);
    if (ranks.rank() == 0) {
      record(signals[0]);
      const Error error(ErrorKind::kRun, "out of luck");
      reducer.abandon(error);
      EXPECT_FALSE(reducer.has_begun());
      has_failed = true;
      throw error;
    }
    while (!has_failed) std::this_thread::yield();
    std::ranges::for_each(signals, record);
    reducer.finish();
  });
  EXPECT_EQ(errors[0], "out of luck");
  EXPECT_NE(errors[1].find("rank 0 on host a, after 4 steps: out of luck"), std::string::npos) << errors[1];
}

}  // namespace
}  // namespace runner::train
