// Requests to stop and to save, and their synchronisation between ranks.
#include "runner/train/loop/train_control.h"

#include <array>
#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "tests/backends/support/on_threads.h"
#include "tests/train/two_epochs.h"

namespace runner::train {
namespace {

using backends::SharedMemoryGroup;

// Returns what each of two ranks gets for its flags.
std::array<ControlFlags, 2> synced_flags(const std::array<ControlFlags, 2>& flags) {
  std::array<ControlFlags, 2> all;
  backends::testing::on_threads(2, [&](SharedMemoryGroup& ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    all[rank] = sync_flags(flags[rank], ranks, /*step=*/3);
  });
  return all;
}

std::string flags_error(const std::array<ControlFlags, 2>& flags) {
  return backends::testing::errors_of(
      2, [&](SharedMemoryGroup& ranks) { sync_flags(flags[static_cast<size_t>(ranks.rank())], ranks, /*step=*/3); })[0];
}

TEST(ControlFlags, OfOneRankTakeEffectOnAll) {
  for (const ControlFlags& all : synced_flags({ControlFlags{.interrupted = true}, ControlFlags{.save = true}})) {
    EXPECT_TRUE(all.interrupted);
    EXPECT_TRUE(all.save);
    EXPECT_FALSE(all.stop);
  }
}

// A rank without a batch has drawn fewer random numbers.
TEST(ControlFlags, ContinueWithTheLargestNumberOfDraws) {
  for (const ControlFlags& all : synced_flags({ControlFlags{.drawn = 5}, ControlFlags{.drawn = 7}}))
    EXPECT_EQ(all.drawn, 7);
}

TEST(ControlFlags, RefuseDifferentDecisions) {
  EXPECT_EQ(flags_error({ControlFlags{.call_digest = 1}, ControlFlags{.call_digest = 1}}), "no error");
  EXPECT_NE(flags_error({ControlFlags{.call_digest = 1}, ControlFlags{.call_digest = ~uint64_t{1}}})
                .find("processes differ in step 3"),
            std::string::npos);
}

TEST(ControlFlags, RefuseDifferentAccumulation) {
  EXPECT_EQ(flags_error({ControlFlags{.accumulation = 4}, ControlFlags{.accumulation = 4}}), "no error");
  EXPECT_NE(flags_error({ControlFlags{.accumulation = 2}, ControlFlags{.accumulation = 4}})
                .find("acc.gradient_accumulation_steps is 2 in one process and 4 in another"),
            std::string::npos);
}

// ---- TrainControl --------------------------------------------------------------------------------------------------

// Runs `body` on two ranks, each with its control. Only rank 1 is asked to stop.
template <class Body>
void on_two_ranks(const Body& body) {
  const schema::Recipe recipe = two_epochs({"num_processes=2"});
  backends::testing::on_threads(2, [&](SharedMemoryGroup& ranks) {
    const Session session(recipe, nullptr, &ranks, nullptr, /*own_thread=*/false);
    const std::atomic<int> stop{ranks.rank()};
    TrainControl control(session, nullptr, stop);
    body(control, ranks.rank());
  });
}

TEST(TrainControl, RanksStopWhenTheyHaveAgreed) {
  on_two_ranks([](TrainControl& control, int rank) {
    EXPECT_EQ(control.asked_to_stop(), rank == 1);
    EXPECT_EQ(control.must_end(), rank == 1);
    EXPECT_FALSE(control.agreed_to_stop());
    control.agree_to_stop("a test");
    EXPECT_TRUE(control.agreed_to_stop());
  });
}

TEST(TrainControl, ARequestOfOneHookTakesEffectOnAllRanks) {
  on_two_ranks([](TrainControl& control, int rank) {
    if (rank == 0) control.request_stop();
    if (rank == 0) control.request_save(/*in_step=*/true);
    EXPECT_FALSE(control.stopped_by_hook()) << "not yet";
    control.sync(/*accumulation=*/1, /*call_digest=*/0);
    EXPECT_TRUE(control.stopped_by_hook());
    EXPECT_TRUE(control.take_save_request());
    EXPECT_FALSE(control.take_save_request());
  });
}

TEST(TrainControl, RanksAgreeInAnEvaluationEveryEighthBatch) {
  on_two_ranks([](TrainControl& control, int) {
    EXPECT_TRUE(control.stops_evaluation());
    for (int i = 0; i < 7; ++i) EXPECT_FALSE(control.stops_evaluation());
    EXPECT_TRUE(control.stops_evaluation());
  });
}

TEST(TrainControl, TheFirstReasonToSaveCountsUnlessAHookAsks) {
  on_two_ranks([](TrainControl& control, int) {
    control.save_when_closed(nullptr);
    control.save_when_closed("schedule");
    control.save_when_closed("best");
    EXPECT_STREQ(control.take_save_reason(), "schedule");
    EXPECT_EQ(control.take_save_reason(), nullptr);
    control.save_when_closed("schedule");
    control.request_save(/*in_step=*/false);
    EXPECT_STREQ(control.take_save_reason(), "hook");
    EXPECT_FALSE(control.save_requested());
  });
}

}  // namespace
}  // namespace runner::train
