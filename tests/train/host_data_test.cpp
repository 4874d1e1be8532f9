// Data that one rank of each host reads: the same for all, in one place, however long reading takes.
#include "runner/train/run/host_data.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backends/runtime/affinity.h"
#include "runner/data/storage.h"
#include "schema/base/error.h"
#include "tests/backends/support/memory_network.h"
#include "tests/backends/support/on_threads.h"
#include "tests/data/load_fixture.h"

namespace runner::train {
namespace {

using backends::HostsGroup;
using backends::SharedMemoryGroup;
using backends::testing::errors_on_hosts;
using backends::testing::on_hosts;
using backends::testing::on_threads;

class HostData : public data::LoadTest {
 protected:
  HostData() { recipe_.data = csv("x,l\n1,a\n2,b\n3,a\n"); }

  data::Data load() {
    ++loads_;
    return data::load(recipe_.data, 1);
  }
  const float* values_of(backends::ProcessGroup& ranks) {
    const data::SharedData data = read_once_per_host(ranks, recipe_, [&] { return load(); });
    EXPECT_EQ(data::features_of(data->train), (LargeArray<float>{1, 2, 3}));
    const std::lock_guard lock(mutex_);
    kept_.push_back(data);
    return data->train.storage().values.data();
  }

  schema::Recipe recipe_;
  std::atomic<int> loads_ = 0;
  std::mutex mutex_;
  std::vector<data::SharedData> kept_;
};

TEST_F(HostData, IsReadOnceAndInOnePlace) {
  const float* places[3] = {};
  on_threads(3, [&](SharedMemoryGroup& ranks) { places[ranks.rank()] = values_of(ranks); });
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(places[1], places[0]);
  EXPECT_EQ(places[2], places[0]);
}

TEST_F(HostData, IsReadOnceOnEachHost) {
  const float* places[4] = {};
  on_hosts({3, 1}, [&](HostsGroup& ranks) { places[ranks.rank()] = values_of(ranks); });
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(places[2], places[0]);
  EXPECT_NE(places[3], places[0]);
}

TEST_F(HostData, IsReadWithTheCoresOfAllRanks) {
  const std::vector<int> cores = backends::usable_core_ids();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  on_threads(2, [&](SharedMemoryGroup& ranks) {
    const backends::PinnedThread pinned({cores[static_cast<size_t>(ranks.rank())]});
    read_once_per_host(ranks, recipe_, [&] {
      EXPECT_EQ(backends::usable_core_ids(), (std::vector<int>{cores[0], cores[1]}));
      return load();
    });
    EXPECT_EQ(backends::usable_cores(), 1);
  });
}

// A collective operation would end after collective_timeout.
TEST_F(HostData, MayTakeLongerThanAnyCollectiveOperation) {
  constexpr auto kTimeout = std::chrono::seconds(1);
  const auto load_slowly = [&] {
    const auto end = std::chrono::steady_clock::now() + 2 * kTimeout;
    while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kTimeout / 100);
    return load();
  };
  on_hosts(
      {2, 1},
      [&](HostsGroup& ranks) {
        const data::SharedData data =
            read_once_per_host(ranks, recipe_, [&] { return ranks.rank() == 0 ? load_slowly() : load(); });
        EXPECT_EQ(data->train.size(), 3);
      },
      kTimeout);
}

TEST_F(HostData, AnErrorIsThatOfTheRankWhichReads) {
  const auto fail_to_load = []() -> data::Data { fail(ErrorKind::kData, "x.csv is damaged"); };
  const std::vector<std::string> errors = errors_on_hosts({2, 2}, [&](HostsGroup& ranks) {
    try {
      read_once_per_host(ranks, recipe_, [&] { return ranks.rank() == 2 ? fail_to_load() : load(); });
    } catch (const Error& error) {
      ranks.fail(error.message(), {});
      throw;
    }
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("x.csv is damaged"), std::string::npos) << error;
}

}  // namespace
}  // namespace runner::train
