// Ranks on several hosts: the order of sums, and what each rank learns of a failure elsewhere.
#include "backends/dist/hosts_group.h"

#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

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

TEST(HostsGroup, PassesOnAFailureToAllHosts) {
  const std::vector<std::string> errors = errors_on_hosts({2, 1, 2}, [](HostsGroup& ranks) {
    if (ranks.rank() == 3) {
      ranks.fail("rank 3 is out of luck", {"h.lua", 7, 0});
      ranks.throw_failure();
    }
    ranks.barrier({"start"});
  });
  expect_each_contains(errors, "h.lua:7: rank 3 is out of luck");
}

// Rank 2 fails while messages of the others are on their way to it, after any number of them.
TEST(HostsGroup, EndsAReductionWhoseMessagesAreOnTheirWay) {
  for (const auto& counts : {std::vector{1, 1, 1}, {1, 1, 2}, {2, 1, 1}}) {
    const int rank_that_fails = counts[0] == 2 ? 3 : 2;
    for (const int delay_us : {0, 300, 1000}) {
      const std::vector<std::string> errors = errors_on_hosts(counts, [&](HostsGroup& ranks) {
        std::jthread failing;
        if (ranks.rank() == rank_that_fails)
          failing = std::jthread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
            ranks.fail("no more", {});
          });
        std::vector<float> values(2'000'000);
        for (;;)
          ranks.all_reduce({DType::kF32, Shape{std::ssize(values)}}, std::as_writable_bytes(std::span(values)),
                           Reduction::kSum, {"x"});
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
      std::chrono::milliseconds(200));
  expect_each_contains(errors,
                       "rank 3 on host b did not reach barrier of end, at step 1 within 200 ms "
                       "(collective_timeout); it last called barrier of start, at step 1");
}

// No rank of host b is there to say who is late.
TEST(HostsGroup, NamesTheLateHost) {
  const std::vector<std::string> errors = errors_on_hosts(
      {1, 2},
      [](HostsGroup& ranks) {
        ranks.barrier({"start", 1});
        if (ranks.rank() > 0) return;
        ranks.barrier({"end", 1});
      },
      std::chrono::milliseconds(100));
  expect_each_contains({errors[0]},
                       "host b (ranks 1 to 2) did not reach barrier of end, at step 1 within 100 ms "
                       "(collective_timeout); it last called barrier of start, at step 1");
}

}  // namespace
}  // namespace runner::backends
