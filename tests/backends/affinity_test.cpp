// Binding of threads to cores.
#include "backends/runtime/affinity.h"

#include <thread>

#include <gtest/gtest.h>

#include "backends/runtime/cpu_features.h"

namespace runner::backends {
namespace {

using Shares = std::vector<std::vector<int>>;

TEST(Affinity, DividesCoresEvenlyIntoContiguousRanges) {
  EXPECT_EQ(shares_of_cores({0, 1, 2, 3}, 2), (Shares{{0, 1}, {2, 3}}));
  EXPECT_EQ(shares_of_cores({0, 1, 2, 3, 8}, 2), (Shares{{0, 1}, {2, 3, 8}}));
  EXPECT_EQ(shares_of_cores({5, 6, 7}, 3), (Shares{{5}, {6}, {7}}));
  EXPECT_EQ(shares_of_cores({1, 4}, 1), (Shares{{1, 4}}));
}

TEST(Affinity, AssignsScarceCoresRoundRobin) {
  EXPECT_EQ(shares_of_cores({0, 1}, 5), (Shares{{0}, {1}, {0}, {1}, {0}}));
  EXPECT_EQ(shares_of_cores({3}, 2), (Shares{{3}, {3}}));
}

// Each core belongs to one process, and the sizes of the parts differ by at most one.
TEST(Affinity, AssignsEveryCoreOnce) {
  for (int count = 1; count <= 20; ++count) {
    std::vector<int> cores;
    for (int core = 0; core < count; ++core) cores.push_back(3 * core);
    for (int processes = 1; processes <= count; ++processes) {
      std::vector<int> all;
      for (const std::vector<int>& share : shares_of_cores(cores, processes)) {
        EXPECT_GE(std::ssize(share), count / processes);
        EXPECT_LE(std::ssize(share), (count + processes - 1) / processes);
        all.insert(all.end(), share.begin(), share.end());
      }
      EXPECT_EQ(all, cores) << count << " cores, " << processes << " processes";
    }
  }
}

TEST(Affinity, PinsAThreadAndThreadsItStarts) {
  const std::vector<int> before = usable_core_ids();
  ASSERT_FALSE(before.empty());
  ASSERT_EQ(static_cast<int>(before.size()), usable_cores());
  const std::vector<int> one{before.back()};
  {
    const PinnedThread pinned(one);
    EXPECT_EQ(usable_core_ids(), one);
    EXPECT_EQ(usable_cores(), 1);
    std::jthread([&] { EXPECT_EQ(usable_core_ids(), one); }).join();
  }
  EXPECT_EQ(usable_core_ids(), before);
  const PinnedThread anywhere({});
  EXPECT_EQ(usable_core_ids(), before);
}

}  // namespace
}  // namespace runner::backends
