// Synchronisation of control flags between ranks.
#include "runner/train/loop/train_control.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "tests/backends/support/on_threads.h"

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

}  // namespace
}  // namespace runner::train
