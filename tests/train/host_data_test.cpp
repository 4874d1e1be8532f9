// Data that one rank of each host reads: the same for all, in one place, however long reading takes.
#include "runner/train/run/host_data.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/runtime/affinity.h"
#include "runner/data/storage.h"
#include "runner/formats/reading_watch.h"
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
  data::SharedData read(backends::ProcessGroup& ranks, std::function<data::Data()> load) const {
    const std::atomic<int> never = 0;
    return read_once_per_host(ranks, recipe_, never, std::move(load));
  }
  const float* values_of(backends::ProcessGroup& ranks) {
    const data::SharedData data = read(ranks, [&] { return load(); });
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
    read(ranks, [&] {
      EXPECT_EQ(backends::usable_core_ids(), (std::vector<int>{cores[0], cores[1]}));
      return load();
    });
    EXPECT_EQ(backends::usable_cores(), 1);
  });
}

// Uses the processor for so long. A collective operation would end after collective_timeout.
void compute_for(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

TEST_F(HostData, MayTakeLongerThanAnyCollectiveOperation) {
  recipe_.collective_timeout = 1;
  on_hosts(
      {2, 1},
      [&](HostsGroup& ranks) {
        const data::SharedData data = read(ranks, [&, rank = ranks.rank()] {
          if (rank == 0) compute_for(std::chrono::seconds(2));
          return load();
        });
        EXPECT_EQ(data->train.size(), 3);
      },
      std::chrono::seconds(1));
}

// As when the disk does not answer: the thread neither computes nor returns.
class Hanging {
 public:
  ~Hanging() { release(); }
  void wait() const {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [&] { return shared_->is_released; });
  }
  void release() {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_released = true;
    shared_->changed.notify_all();
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_released = false;
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

TEST_F(HostData, ADiskThatDoesNotAnswerEndsTheRun) {
  recipe_.collective_timeout = 1;
  const auto disk = std::make_shared<Hanging>();
  const std::vector<std::string> errors = errors_on_hosts(
      {1, 2},
      [&](HostsGroup& ranks) {
        read(ranks, [disk, rank = ranks.rank(), spec = recipe_.data] {
          if (rank == 1) disk->wait();
          return data::load(spec, 1);
        });
      },
      std::chrono::seconds(1));
  disk->release();
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 1 on host b did not reach barrier of reading the data, at step 0 within 1 s"),
              std::string::npos)
        << error;
}

TEST_F(HostData, AFailureElsewhereEndsReading) {
  for (const bool is_interrupted : {false, true}) {
    const auto ended = std::make_shared<std::atomic<int>>(0);
    std::atomic<int> stop = 0;
    const std::vector<std::string> errors = errors_on_hosts({1, 1}, [&](HostsGroup& ranks) {
      const auto read_for_ever = [ended]() -> data::Data {
        try {
          for (;;) formats::ReadingWatch::advance("x.csv", 0.5);
        } catch (const Error& error) {
          ++*ended;
          throw;
        }
      };
      try {
        if (ranks.rank() == 1 && is_interrupted) stop = 1;
        if (ranks.rank() == 1 && !is_interrupted) fail(ErrorKind::kRun, "out of luck");
        read_once_per_host(ranks, recipe_, stop, read_for_ever);
      } catch (const Error& error) {
        ranks.fail(error.message(), {});
        throw;
      }
    });
    const char* const reason = is_interrupted ? "interrupted before the run began" : "out of luck";
    for (const std::string& error : errors) EXPECT_NE(error.find(reason), std::string::npos) << error;
    EXPECT_EQ(*ended, is_interrupted ? 2 : 1);
  }
}

TEST_F(HostData, AnErrorIsThatOfTheRankWhichReads) {
  const std::vector<std::string> errors = errors_on_hosts({2, 2}, [&](HostsGroup& ranks) {
    try {
      read(ranks, [&, rank = ranks.rank()] {
        if (rank == 2) fail(ErrorKind::kData, "x.csv is damaged");
        return load();
      });
    } catch (const Error& error) {
      ranks.fail(error.message(), {});
      throw;
    }
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("x.csv is damaged"), std::string::npos) << error;
}

}  // namespace
}  // namespace runner::train
