#include "store/spool_ingester.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "store/network.h"
#include "store/sqlite.h"

namespace runner::store {

using Clock = std::chrono::steady_clock;

// The thread and its owner share it. The last one deletes it.
struct SpoolIngester::Shared {
  enum class Request { kNone, kFinish, kStop };

  Shared(std::filesystem::path spool_file, std::filesystem::path store_file, IngesterOptions chosen)
      : spool(std::move(spool_file)), store(std::move(store_file)), options(std::move(chosen)) {}

  void work() {
    while (next_request() == Request::kNone) ingest_if_due();
    try {
      if (request == Request::kFinish) runs = ingest_with_patience();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    has_ended = true;
    changed.notify_all();
  }

  Request next_request() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, options.look_every, [this] { return request != Request::kNone; });
    return request;
  }

  // Without its file system, the path of the store may be in an empty folder of the local disk.
  std::vector<IngestedRun> ingest_now() {
    RUN_CHECK(!network_file_system(store).empty(), ErrorKind::kStore,
              "its network file system is not mounted any more");
    return ingest(spool, store, [this] { progress.fetch_add(1); });
  }

  // A failure is repeated later, and reported by take_failures() and finish().
  void ingest_if_due() {
    try {
      const int64_t states = newest_state();
      const bool is_due = states != ingested_states || !ingested_at || Clock::now() - *ingested_at >= options.every;
      if (!is_due || (failed_at && Clock::now() - *failed_at < options.every)) return;
      if (ingest_now().empty()) return;  // the run has not begun
      ingested_states = states;
      ingested_at = Clock::now();
      failed_at.reset();
    } catch (const SqliteError& failure) {
      note_failure(failure.is_busy() ? "busy" : failure.message(), failure.message());
    } catch (const Error& failure) {
      note_failure(failure.message(), failure.message());
    } catch (const std::exception& failure) {
      note_failure(failure.what(), failure.what());
    }
  }

  // Reports the first message of each `kind`.
  void note_failure(const std::string& kind, const std::string& message) {
    failed_at = Clock::now();
    const std::lock_guard lock(mutex);
    if (!seen_failures.insert(kind).second) return;
    failures.push_back(message);
    has_failures = true;
  }

  // Returns the number of the newest checkpoint that was ever saved.
  int64_t newest_state() const {
    Store source = Store::open(spool, Access::kRead);
    return source.database().query_int64("SELECT seq FROM sqlite_sequence WHERE name = 'state'");
  }

  // At the end of an array of jobs, many processes wait for the lock.
  std::vector<IngestedRun> ingest_with_patience() {
    for (const auto start = Clock::now();;) {
      try {
        return ingest_now();
      } catch (const SqliteError& busy) {
        if (!busy.is_busy() || Clock::now() - start >= options.patience) throw;
        progress.fetch_add(1);  // its disk answers
      }
    }
  }

  const std::filesystem::path spool, store;
  const IngesterOptions options;
  std::atomic<int64_t> progress{0};
  std::atomic<bool> has_failures{false};

  std::mutex mutex;  // guards the members up to the next blank line
  std::condition_variable changed;
  Request request = Request::kNone;
  bool has_ended = false;
  std::vector<std::string> failures;  // that were not taken yet
  std::set<std::string> seen_failures;

  // Used by the thread until it has ended.
  std::vector<IngestedRun> runs;
  std::exception_ptr error;
  int64_t ingested_states = 0;
  std::optional<Clock::time_point> ingested_at, failed_at;
};

SpoolIngester::SpoolIngester(std::filesystem::path spool, std::filesystem::path store, IngesterOptions options)
    : shared_(std::make_shared<Shared>(std::move(spool), std::move(store), std::move(options))) {
  const SignalsBlocked blocked;
  std::thread([shared = shared_] { shared->work(); }).detach();
}

SpoolIngester::~SpoolIngester() {
  bool has_waited = true;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->request == Shared::Request::kNone) {
      shared_->request = Shared::Request::kStop;
      has_waited = false;
    }
  }
  shared_->changed.notify_all();
  if (!has_waited) wait_for_end();
  if (shared_->options.abandon && is_stuck()) shared_->options.abandon(shared_);
}

// Returns false if the thread makes no progress for `patience`.
bool SpoolIngester::wait_for_end() {
  std::unique_lock lock(shared_->mutex);
  for (int64_t before = -1, now = shared_->progress; before != now; now = shared_->progress) {
    before = now;
    if (shared_->changed.wait_for(lock, shared_->options.patience, [this] { return shared_->has_ended; })) return true;
  }
  return false;
}

std::vector<IngestedRun> SpoolIngester::finish() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->request = Shared::Request::kFinish;
  }
  shared_->changed.notify_all();
  RUN_CHECK(wait_for_end(), ErrorKind::kStore, "the disk of the store {} does not answer", shared_->store.string());
  if (shared_->error) std::rethrow_exception(shared_->error);
  return std::move(shared_->runs);
}

std::vector<std::string> SpoolIngester::take_failures() {
  if (!shared_->has_failures) return {};
  const std::lock_guard lock(shared_->mutex);
  shared_->has_failures = false;
  return std::exchange(shared_->failures, {});
}

bool SpoolIngester::is_stuck() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->has_ended;
}

}  // namespace runner::store
