// EventBoard: all ranks get the events of all, and the last owner frees them, whichever rank fails.
#include "runner/train/engine/event_board.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/backends/support/on_threads.h"

namespace runner::train {
namespace {

using backends::testing::errors_of;
using backends::testing::on_threads;

class LivingEvent final : public backends::Event {
 public:
  LivingEvent(int of_rank, int its_number) : rank(of_rank), number(its_number) { ++alive; }
  ~LivingEvent() override { --alive; }

  const int rank, number;
  static inline std::atomic<int> alive{0};
};

Events two_events(int rank) {
  return {std::make_shared<LivingEvent>(rank, 0), std::make_shared<LivingEvent>(rank, 1)};
}

TEST(EventBoard, ReturnsEventsOfAllRanksInOrder) {
  on_threads(3, [](backends::ProcessGroup& ranks) {
    for (int round = 0; round < 100; ++round) {
      const Events all = EventBoard(two_events(ranks.rank()), ranks).of_all();
      ASSERT_EQ(all.size(), 6u);
      for (int i = 0; i < 6; ++i) {
        const auto& event = static_cast<const LivingEvent&>(*all[static_cast<size_t>(i)]);
        EXPECT_EQ(event.rank, i / 2);
        EXPECT_EQ(event.number, i % 2);
      }
    }
  });
  EXPECT_EQ(LivingEvent::alive, 0);
}

// One rank leaves without reading while the others read or wait for it.
TEST(EventBoard, KeepsEventsUntilTheLastRankLeaves) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::string> errors = errors_of(3, [](backends::ProcessGroup& ranks) {
      const EventBoard board(two_events(ranks.rank()), ranks);
      if (ranks.rank() == 2) return ranks.fail("it has had enough", {});
      for (const auto& event : board.of_all()) EXPECT_LT(static_cast<const LivingEvent&>(*event).rank, 3);
    });
    EXPECT_EQ(errors, (std::vector<std::string>{"it has had enough", "it has had enough", "no error"}));
    ASSERT_EQ(LivingEvent::alive, 0);
  }
}

}  // namespace
}  // namespace runner::train
