#include "backends/runtime/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "backends/runtime/event_count.h"
#include "backends/runtime/spin.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

using Clock = std::chrono::steady_clock;

// How long an idle worker spins before it sleeps. Consecutive kernels and steps never pay for a wake-up, and a kernel
// that waits for other processes does not keep cores busy.
constexpr auto kIdleSpinTime = std::chrono::microseconds(200);
// Spins between two looks at the clock, or yields of the core.
constexpr int kSpinsPerRest = 2048;

}  // namespace

// Each thread has a share of the chunks, in their order: with the same number of threads, the same part of a tensor is
// mostly in the cache of the same core. A thread without chunks takes those of the next one.
//
// A job is published by storing each share's `claim` = (generation, chunks left). A thread claims a chunk by
// decrementing the lower half with a compare-exchange, which succeeds only while the job it read is open. The fields of
// a job are written only when no chunk of the previous job is left, so a thread that wakes late can never run an old or
// half-written job.
struct WorkerPool::Shared {
  static constexpr uint64_t kLeft = std::numeric_limits<uint32_t>::max();

  struct alignas(128) Share {
    std::atomic<uint64_t> claim{0};
    std::atomic<int64_t> end{0};  // of its chunks
  };

  explicit Shared(int threads) : shares(static_cast<size_t>(threads)) {}

  std::vector<Share> shares;  // by thread
  alignas(128) std::atomic<Call> call{nullptr};
  std::atomic<const void*> body{nullptr};

  alignas(128) std::atomic<int64_t> pending{0};  // chunks not finished
  std::atomic<bool> failed{false};               // the first thread to set it owns `error`
  std::exception_ptr error;

  alignas(128) EventCount changed;  // notified after a claim or `stop` has been set
  std::atomic<bool> stop{false};

  bool has_work() const {
    return std::any_of(shares.begin(), shares.end(), [](const Share& share) { return (share.claim & kLeft) != 0; });
  }

  void publish(int64_t count) {
    const auto threads = static_cast<int64_t>(shares.size());
    int64_t begin = 0;
    for (int64_t thread = 0; thread < threads; ++thread) {
      Share& share = shares[static_cast<size_t>(thread)];
      const int64_t end = count * (thread + 1) / threads;
      const uint64_t generation = (share.claim.load(std::memory_order_relaxed) >> 32) + 1;
      share.end.store(end, std::memory_order_relaxed);
      share.claim.store(generation << 32 | static_cast<uint64_t>(end - begin));
      begin = end;
    }
    changed.notify_all();
  }

  // Runs one chunk of the current job, of the share of `thread` if it has one. Returns false if there is none.
  bool run_one(size_t thread) {
    const uint64_t generation = shares[thread].claim.load(std::memory_order_acquire) >> 32;
    for (size_t i = 0; i < shares.size(); ++i)
      if (run_one(shares[(thread + i) % shares.size()], generation)) return true;
    return false;
  }

  // A thread whose own share has not been published yet takes no other.
  bool run_one(Share& share, uint64_t generation) {
    uint64_t ticket = share.claim.load(std::memory_order_acquire);
    while ((ticket & kLeft) != 0 && ticket >> 32 == generation) {
      const Call job_call = call.load(std::memory_order_relaxed);
      const void* job_body = body.load(std::memory_order_relaxed);
      const int64_t end = share.end.load(std::memory_order_relaxed);
      if (!share.claim.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
      run_chunk(job_call, job_body, end - static_cast<int64_t>(ticket & kLeft));
      return true;
    }
    return false;
  }

  void run_chunk(Call job_call, const void* job_body, int64_t chunk) {
    if (!failed.load(std::memory_order_relaxed)) {
      try {
        job_call(job_body, chunk);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    pending.fetch_sub(1, std::memory_order_release);
  }

  // Returns after any notification: the next job may follow closely, even if this one has no chunk left.
  void sleep() {
    const uint32_t before = changed.count();
    if (!has_work() && !stop.load()) changed.wait(before);
  }

  void work(size_t thread) {
    auto last_work = Clock::now();
    for (int spins = 0; !stop.load(std::memory_order_relaxed); ++spins) {
      if (run_one(thread)) {
        while (run_one(thread)) continue;
        spins = 0;
        last_work = Clock::now();
        continue;
      }
      spin_pause();
      if (spins < kSpinsPerRest) continue;
      spins = 0;
      if (Clock::now() - last_work <= kIdleSpinTime) {
        std::this_thread::yield();
      } else {
        sleep();
        last_work = Clock::now();
      }
    }
  }
};

WorkerPool::WorkerPool(int threads) : shared_(std::make_unique<Shared>(threads)) {
  RUN_ASSERT(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i)
      workers_.emplace_back([shared = shared_.get(), i] { shared->work(static_cast<size_t>(i)); });
  } catch (...) {
    join();
    throw;
  }
}

WorkerPool::~WorkerPool() {
  join();
}

void WorkerPool::join() {
  shared_->stop.store(true);
  shared_->changed.notify_all();
  workers_.clear();
}

void WorkerPool::run(int64_t chunks, Call call, const void* body) {
  Shared& shared = *shared_;
  RUN_ASSERT(chunks <= static_cast<int64_t>(Shared::kLeft));
  RUN_ASSERT(shared.pending.load(std::memory_order_acquire) == 0);  // not from inside a chunk
  shared.call.store(call, std::memory_order_relaxed);
  shared.body.store(body, std::memory_order_relaxed);
  shared.failed.store(false, std::memory_order_relaxed);
  shared.pending.store(chunks, std::memory_order_relaxed);
  shared.publish(chunks);
  while (shared.run_one(size_t{0})) continue;
  for (int spins = 0; shared.pending.load(std::memory_order_acquire) != 0; ++spins) {
    spin_pause();
    if (spins % kSpinsPerRest == kSpinsPerRest - 1) std::this_thread::yield();
  }
  if (shared.failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(shared.error, nullptr));
}

}  // namespace runner::backends
