#include <atomic>
#include <chrono>
#include <optional>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

#include "store/sqlite.h"
#include "store/store.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

class Turn : public StoreTest {};

std::binary_semaphore noticed{0};

TEST_F(Turn, ReturnsAtOnceIfNoProcessWrites) {
  Store store = open_to_write();
  const std::atomic<int> stop = 1;
  wait_for_write_lock(store, stop);
  create_run(store, sample_run());
}

TEST_F(Turn, ThrowsAfterTheLimit) {
  EXPECT_EQ(kLockLimit, std::chrono::seconds(10)) << "as documented";
  Store store = open_to_write(), other = open_to_write();
  const Transaction writing(other.database(), Transaction::Kind::kWrite);
  const std::atomic<int> stop = 0;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of([&] { wait_for_write_lock(store, stop, std::chrono::milliseconds(1500)); }),
            fmt::format("store: the store {} is locked by another process: database is locked; stop that process or "
                        "wait for it, then try again",
                        path.string()));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
}

TEST_F(Turn, WaitEndsOnASignal) {
  Store store = open_to_write(), other = open_to_write();
  const Transaction writing(other.database(), Transaction::Kind::kWrite);
  const std::atomic<int> stop = 1;
  EXPECT_EQ(
      error_of([&] { wait_for_write_lock(store, stop); }),
      fmt::format("interrupted: interrupted while another process held the lock on the store {}; nothing was recorded",
                  path.string()));
}

TEST_F(Turn, ReturnsWhenTheOtherWriterFinishes) {
  Store store = open_to_write();
  std::optional<Store> other = open_to_write();
  std::optional<Transaction> writing(std::in_place, other->database(), Transaction::Kind::kWrite);
  set_lock_notice([](const fs::path&) { noticed.release(); });
  const std::atomic<int> stop = 0;
  std::thread waiting([&] { wait_for_write_lock(store, stop); });
  noticed.acquire();
  writing.reset();
  waiting.join();
  set_lock_notice(nullptr);
}

}  // namespace
}  // namespace runner::store
