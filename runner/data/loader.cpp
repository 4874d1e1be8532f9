#include "runner/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/runtime/spans.h"
#include "backends/tensor/alignment.h"
#include "runner/data/batch_maker.h"
#include "runner/data/batch_slots.h"
#include "schema/error.h"
#include "store/signals_blocked.h"

namespace runner::data {
namespace {

using backends::kAlignment;

constexpr size_t kRingBytes = size_t{256} << 10;  // small batches are prepared ahead up to this, within a core's L2
constexpr int64_t kMostAhead = 63;
constexpr int64_t kValid = 2;  // batches that the consumer has

// So many batches are made ahead; each thread has one in hand.
int64_t batches_ahead(const LoaderSpec& spec, size_t batch_bytes) {
  if (spec.prefetch == 0) return 0;
  return std::max(
      {spec.prefetch, spec.threads, std::min(kMostAhead, static_cast<int64_t>(kRingBytes / batch_bytes) - 1)});
}

// From its beginning to its end the consumer waits.
class Wait {
 public:
  explicit Wait(InputUse* use) : use_(use), begin_(use != nullptr ? backends::monotonic_ns() : 0) {}
  ~Wait() {
    if (use_ != nullptr) use_->wait_ns += backends::monotonic_ns() - begin_;
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  InputUse* const use_;
  const int64_t begin_;
};

}  // namespace

// Slots 0 … depth − 1 are used in turn.  Batch number n is in slot n mod depth; the consumer holds the batches up to
// taken − 1, kValid of them, until it asks for the next one.  Producers take turns to begin batches, fill them side by
// side, and publish them in order: numbers below `produced` are there, each a batch or what went wrong with it.
struct Loader::Ring {
  Ring(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec_)
      : spec(spec_),
        maker(dataset, plan, spec_),
        layout(dataset, maker.largest()),
        ahead(batches_ahead(spec_, layout.bytes)),
        depth(ahead + kValid),
        slots(layout, depth) {
    RUN_ASSERT(spec.prefetch == 0 || spec.threads == 1 || !maker.fills_in_turn());
    if (spec.prefetch > 0) start_producers();
  }

  ~Ring() { stop(); }

  void start_producers() {
    const store::SignalsBlocked blocked;
    try {
      for (int64_t i = 1; i <= spec.threads; ++i) {
        std::string name = spec.threads == 1 ? "loader" : fmt::format("loader {}", i);
        producers.emplace_back([this, name = std::move(name), recorder = backends::RecordingThread::recorder()] {
          const backends::RecordingThread recording(recorder, name);
          produce();
        });
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping.store(true);
    }
    wake_producer.notify_one();
    for (std::thread& producer : producers) producer.join();
  }

  void produce() {
    for (;;) {
      std::unique_lock turn(turns);
      if (!has_room()) return;
      const backends::ScopedSpan span(backends::SpanKind::kData, "make batch");
      BatchSlot& slot = begin_next();
      turn.unlock();
      fill(slot);
      publish(slot);
    }
  }

  // Waits for room for the next batch; false: no more are to be made.
  bool has_room() {
    if (begun - released.load() == depth) wait_for_room();
    return !stopping.load(std::memory_order_relaxed);
  }

  // Sleeps until half of the ring is free, so that one wake-up serves many batches; but not while the consumer, which
  // keeps kValid, has no other.
  void wait_for_room() {
    const int64_t half_free = begun - std::max(depth / 2, kValid);
    std::unique_lock lock(mutex);
    wanted.store(half_free);
    wake_producer.wait(lock, [&] { return stopping.load() || released.load() >= half_free; });
    wanted.store(kNothing);
  }

  BatchSlot& begin_next() {
    const int64_t number = begun++;
    BatchSlot& slot = slots[number];
    try {
      maker.begin(slot, number, slots);
    } catch (...) {
      keep_failure(slot);
    }
    return slot;
  }

  void fill(BatchSlot& slot) {
    if (slot.failure) return;
    try {
      maker.fill(slot, leaves);
    } catch (...) {
      keep_failure(slot);
    }
  }

  // No batch is begun behind one that failed; those before it come first.
  void keep_failure(BatchSlot& slot) {
    slot.failure = std::current_exception();
    stopping.store(true);
  }

  // Who makes the batch that is due passes on those that others have made behind it.  Either they see that it is due,
  // or it sees that they are made.
  void publish(BatchSlot& slot) {
    slot.made.store(slot.number + 1);
    int64_t due = produced.load();
    bool passed_on = false;
    while (slots[due].made.load() == due + 1) {
      if (!produced.compare_exchange_strong(due, due + 1)) continue;
      passed_on = true;
      ++due;
    }
    if (passed_on && consumer_waits.load()) wake(wake_consumer);
  }

  bool is_there() const { return produced.load() > taken; }

  // Without a thread.
  void make() {
    const Wait counted(spec.use);
    const backends::ScopedSpan span(backends::SpanKind::kData, "make batch");
    BatchSlot& slot = begin_next();
    fill(slot);
    publish(slot);
  }

  bool wait(const std::function<bool()>& give_up) {
    if (is_there()) return true;
    if (spec.prefetch > 0) return wait_for_batch(give_up);
    given_up = &give_up;
    make();
    given_up = nullptr;
    return slots[taken].failure != nullptr || !spec.transform || !give_up();
  }

  // give_up: asked from time to time; empty: never does.
  bool wait_for_batch(const std::function<bool()>& give_up) {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
    const backends::ScopedSpan span(backends::SpanKind::kData, "wait for batch");
    const Wait counted(spec.use);
    const auto there = [this] { return is_there(); };
    waited = true;
    std::unique_lock lock(mutex);
    consumer_waits.store(true);
    if (!give_up) wake_consumer.wait(lock, there);
    while (!there() && !give_up()) wake_consumer.wait_for(lock, kBetweenLooks, there);
    consumer_waits.store(false);
    return is_there();
  }

  const Batch& take() {
    const int64_t ready = get_ready();
    const BatchSlot& slot = slots[taken];
    if (slot.failure) std::rethrow_exception(slot.failure);
    count_taken(ready);
    ++taken;
    return slot.batch;
  }

  // Returns with a batch there; how many were when it was asked.
  int64_t get_ready() {
    if (spec.prefetch == 0) {
      if (!is_there()) make();
      return 0;
    }
    const int64_t free = std::max<int64_t>(taken - (kValid - 1), 0);  // the slots of the batches before
    released.store(free);
    int64_t want = wanted.load();
    if (free >= want && wanted.compare_exchange_strong(want, kNothing)) wake(wake_producer);
    const int64_t ready = produced.load() - taken;
    if (ready == 0) wait_for_batch({});
    return ready;
  }

  void count_taken(int64_t ready) {
    if (spec.use == nullptr) return;
    ++spec.use->batches;
    // Small batches are more in the ring than were asked for.
    spec.use->ready += std::exchange(waited, false) ? 0 : std::min(ready, spec.prefetch);
    spec.use->ahead = spec.prefetch;
  }

  // The lock orders the notification after the other side's check of its condition.
  void wake(std::condition_variable& sleeper) {
    { const std::lock_guard lock(mutex); }
    sleeper.notify_one();
  }

  // Left half done, as nobody takes the batch: the loader is about to go, or who waits for it has given up.
  bool is_left() const { return stopping.load(std::memory_order_relaxed) || (given_up != nullptr && (*given_up)()); }

  static constexpr int64_t kNothing = INT64_MAX;

  const LoaderSpec spec;
  BatchMaker maker;
  const BatchLayout layout;
  const int64_t ahead, depth;
  BatchSlots slots;
  const std::function<bool()> leaves = [this] { return is_left(); };

  // The consumer's.
  int64_t taken = 0;
  bool waited = false;                              // for the batch that it takes next
  const std::function<bool()>* given_up = nullptr;  // without a thread: what may leave a batch half done
  // The producers', or the consumer's without them.
  std::mutex turns;
  int64_t begun = 0;  // of who has the turn
  alignas(kAlignment) std::atomic<int64_t> produced{0};
  alignas(kAlignment) std::atomic<int64_t> released{0};
  alignas(kAlignment) std::atomic<bool> consumer_waits{false};
  std::atomic<int64_t> wanted{kNothing};  // of `released`, by the producer that waits
  std::atomic<bool> stopping{false};      // no more batches are begun
  std::mutex mutex;                       // orders wake-ups
  std::condition_variable wake_consumer, wake_producer;
  std::vector<std::thread> producers;  // last: they use all of the above
};

Batch Batch::part(int64_t first, int64_t count) const {
  const auto cut = [&](auto values) {
    const size_t width = values.size() / static_cast<size_t>(size);
    return values.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(count) * width);
  };
  Batch part = *this;
  part.size = count;
  part.largest = count + (first + count == size ? largest - size : 0);
  part.features = cut(features);
  part.classes = cut(classes);
  part.targets = cut(targets);
  part.weights = cut(weights);
  part.ids = cut(ids);
  return part;
}

Loader::Loader(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec)
    : ring_(std::make_unique<Ring>(dataset, plan, spec)) {}

Loader::~Loader() = default;

const Batch* Loader::peek(const std::function<bool()>& give_up) {
  if (ring_->spec.prefetch == 0 || !ring_->wait(give_up)) return nullptr;
  const BatchSlot& slot = ring_->slots[ring_->taken];
  return slot.failure ? nullptr : &slot.batch;
}

bool Loader::wait(const std::function<bool()>& give_up) {
  return ring_->wait(give_up);
}

const Batch& Loader::next() {
  Transform* const transform = ring_->spec.transform.get();
  if (transform == nullptr) return ring_->take();
  const int64_t number = ring_->taken;
  try {
    const Batch& batch = ring_->take();
    transform->pass_on(number);
    return batch;
  } catch (...) {
    transform->pass_on(number);
    throw;
  }
}

}  // namespace runner::data
