#include <chrono>

#include "store/sqlite.h"
#include "store/store.h"

namespace runner::store {
namespace {

// `stop` is checked between short waits. The first one is long enough for the lock notice to appear.
constexpr int kFirstWaitMs = 1'100, kLaterWaitMs = 500;

struct PatienceRestored {
  Database& database;
  ~PatienceRestored() { database.set_patience(static_cast<int>(kLockLimit.count())); }
};

}  // namespace

void wait_for_write_lock(Store& store, const std::atomic<int>& stop, std::chrono::milliseconds limit) {
  Database& database = store.database();
  const PatienceRestored restored{database};
  const auto start = std::chrono::steady_clock::now();
  for (int wait = kFirstWaitMs;; wait = kLaterWaitMs) {
    database.set_patience(wait);
    try {
      const Transaction turn(database, Transaction::Kind::kWrite);
      return;
    } catch (const SqliteError& error) {
      if (!error.is_busy()) throw;
      RUN_CHECK(stop.load() == 0, ErrorKind::kInterrupted,
                "interrupted while another process held the lock on the store {}; nothing was recorded",
                store.path().string());
      if (std::chrono::steady_clock::now() - start >= limit) throw;
    }
  }
}

}  // namespace runner::store
