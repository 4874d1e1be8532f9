// Ranks on several hosts: the order of sums, and what each rank learns of a failure elsewhere.
#include "backends/dist/hosts_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/runtime/arena.h"
#include "tests/backends/support/memory_network.h"

namespace runner::backends {
namespace {

using testing::errors_on_hosts;
using testing::on_hosts;

void expect_each_contains(const std::vector<std::string>& errors, std::string_view text) {
  for (const std::string& error : errors) EXPECT_NE(error.find(text), std::string::npos) << error;
}

const TensorType kFloat{DType::kF32, Shape{1}};

// In f32, 1e8 + 1 is 1e8: the left fold is 1, the sum of pairs 0, and (0 + 2) + (1 + 3) is 2.
TEST(HostsGroup, SumsFromLeftToRightHoweverRanksAreDivided) {
  constexpr std::array kValues{1e8f, 1.0f, -1e8f, 1.0f};
  const std::vector<std::vector<int>> divisions{{4}, {2, 2}, {1, 3}, {3, 1}, {1, 1, 2}, {1, 1, 1, 1}};
  for (const std::vector<int>& counts : divisions)
    on_hosts(counts, [&](HostsGroup& ranks) {
      float value = kValues[static_cast<size_t>(ranks.rank())];
      ranks.all_reduce(kFloat, std::as_writable_bytes(std::span(&value, 1)), Reduction::kSum, {"x"});
      EXPECT_EQ(value, 1.0f);
      std::vector<float> many(100'000, kValues[static_cast<size_t>(ranks.rank())]);
      ranks.all_reduce({DType::kF32, Shape{100'000}}, std::as_writable_bytes(std::span(many)), Reduction::kSum, {"x"});
      EXPECT_EQ(many, std::vector<float>(100'000, 1.0f));
    });
}

// Floats that hosts may send and receive where they are, unless `stays` is false.
class Values {
 public:
  Values(HostsGroup& ranks, size_t count, bool stays) : memory_(std::make_shared<Arena>(count * sizeof(float))) {
    if (stays) ranks.use_in_place({memory_, memory_->data()}, memory_->bytes());
  }

  std::span<float> floats() const {
    return {reinterpret_cast<float*>(memory_->data()), memory_->bytes() / sizeof(float)};
  }
  void reduce(HostsGroup& ranks) const {
    ranks.all_reduce({DType::kF32, Shape{std::ssize(floats())}}, std::as_writable_bytes(floats()), Reduction::kSum,
                     {"x"});
  }

 private:
  const std::shared_ptr<Arena> memory_;
};

float value_of(int rank, size_t i) {
  return std::ldexp(static_cast<float>((i * 37 + static_cast<size_t>(rank) * 11) % 101) - 50.0f, (rank * 13) % 20);
}

// Sizes with one and several pieces, complete and not.
TEST(HostsGroup, SumsOfAnySizeAreLeftFoldsInPlaceOrNot) {
  for (const std::vector<int>& counts : {std::vector{1, 1}, {2, 1}, {1, 2}, {1, 1, 1}, {1, 2, 1}})
    for (const size_t count : {3U, 700U, 5'000U, 16'384U, 40'001U, 1'300'007U})
      for (const bool stays : {false, true})
        on_hosts(counts, [&](HostsGroup& ranks) {
          const Values values(ranks, count, stays);
          for (size_t i = 0; i < count; ++i) values.floats()[i] = value_of(ranks.rank(), i);
          values.reduce(ranks);
          size_t wrong = 0;
          for (size_t i = 0; i < count; ++i) {
            float sum = value_of(0, i);
            for (int rank = 1; rank < ranks.size(); ++rank) sum += value_of(rank, i);
            wrong += values.floats()[i] != sum ? 1 : 0;
          }
          EXPECT_EQ(wrong, 0U) << count << " floats, " << counts.size() << " hosts" << (stays ? ", in place" : "");
        });
}

// How a rank holds its values does not change what it sends.
TEST(HostsGroup, RanksMayDifferInWhatStays) {
  on_hosts({1, 1}, [](HostsGroup& ranks) {
    const Values values(ranks, 100'000, /*stays=*/ranks.rank() == 0);
    for (float& value : values.floats()) value = static_cast<float>(ranks.rank() + 1);
    values.reduce(ranks);
    EXPECT_TRUE(std::ranges::all_of(values.floats(), [](float value) { return value == 3.0f; }));
  });
}

TEST(HostsGroup, PassesOnAFailureToAllHosts) {
  const std::vector<std::string> errors = errors_on_hosts({2, 1, 2}, [](HostsGroup& ranks) {
    if (ranks.rank() == 3) {
      ranks.fail("rank 3 is out of luck", {"h.lua", 7, 0});
      EXPECT_FALSE(ranks.has_failed_by_loss());
      ranks.throw_failure();
    }
    ranks.barrier({"start"});
  });
  expect_each_contains(errors, "h.lua:7: rank 3 is out of luck");
}

// Whatever the text says.
TEST(HostsGroup, TellsALossFromAnErrorOnAllHosts) {
  for (const bool is_loss : {true, false})
    on_hosts({2, 1, 2}, [&](HostsGroup& ranks) {
      const std::string reason = "host b (rank 2) did not reach barrier";
      if (ranks.rank() == 3) is_loss ? ranks.fail_by_loss(reason) : ranks.fail(reason, {});
      EXPECT_THROW(ranks.barrier({"start"}), Error);
      EXPECT_EQ(ranks.has_failed_by_loss(), is_loss) << ranks.rank();
    });
}

// Rank 2 fails while messages of the others are on their way to it, after any number of them.
TEST(HostsGroup, EndsAReductionWhoseMessagesAreOnTheirWay) {
  for (const auto& counts : {std::vector{1, 1}, {1, 1, 1}, {1, 1, 2}, {2, 1, 1}}) {
    const int rank_that_fails = counts[0] == 2 ? 3 : static_cast<int>(counts.size()) - 1;
    for (const int delay_us : {0, 300, 1000}) {
      const std::vector<std::string> errors = errors_on_hosts(counts, [&](HostsGroup& ranks) {
        std::jthread failing;
        if (ranks.rank() == rank_that_fails)
          failing = std::jthread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
            ranks.fail("no more", {});
          });
        const Values values(ranks, 2'000'000, /*stays=*/delay_us != 300);
        for (;;) values.reduce(ranks);
      });
      expect_each_contains(errors, "no more");
    }
  }
}

TEST(HostsGroup, NoticesAFailureBetweenCalls) {
  on_hosts({1, 1}, [](HostsGroup& ranks) {
    if (ranks.rank() == 1) return ranks.fail("gone", {});
    while (!ranks.has_failed()) std::this_thread::yield();
    EXPECT_THROW(ranks.throw_failure(), Error);
  });
}

TEST(HostsGroup, NamesTheRanksWhoseCallsDiffer) {
  const std::vector<std::string> errors = errors_on_hosts({2, 2}, [](HostsGroup& ranks) {
    ranks.barrier({"start", 1});
    ranks.barrier({"end", ranks.rank() < 2 ? 1 : 2});
  });
  expect_each_contains(errors,
                       "ranks 0 and 1 call barrier of end, at step 1; ranks 2 and 3 call barrier of end, "
                       "at step 2");
}

// Rank 3 is late on its host, whose other rank knows best which one is missing.
TEST(HostsGroup, NamesTheLateRankAndItsHost) {
  const std::vector<std::string> errors = errors_on_hosts(
      {2, 2},
      [](HostsGroup& ranks) {
        ranks.barrier({"start", 1});
        if (ranks.rank() == 3) {
          while (!ranks.has_failed()) std::this_thread::yield();
          return ranks.throw_failure();
        }
        ranks.barrier({"end", 1});
      },
      std::chrono::milliseconds(700));
  expect_each_contains(errors,
                       "rank 3 on host b did not reach barrier of end, at step 1 within 700 ms "
                       "(collective_timeout); it last called barrier of start, at step 1");
}

// No rank of host b is there to say who is late.
TEST(HostsGroup, NamesTheLateHost) {
  const std::vector<std::string> errors = errors_on_hosts(
      {1, 2},
      [](HostsGroup& ranks) {
        ranks.barrier({"start", 1});
        if (ranks.rank() > 0) return;
        try {
          ranks.barrier({"end", 1});
        } catch (const Error&) {
          EXPECT_TRUE(ranks.has_failed_by_loss());
          throw;
        }
      },
      std::chrono::milliseconds(700));  // also a busy machine allocates its memory within this
  expect_each_contains({errors[0]},
                       "host b (ranks 1 to 2) did not reach barrier of end, at step 1 within 700 ms "
                       "(collective_timeout); it last called barrier of start, at step 1");
}

}  // namespace
}  // namespace runner::backends
