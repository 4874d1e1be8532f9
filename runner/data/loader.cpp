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
#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"

namespace runner::data {
namespace {

using backends::kAlignment;

constexpr size_t kRingBytes = size_t{256} << 10;  // small batches are prefetched up to this size, which fits into the
                                                  // L2 cache of a core
constexpr int64_t kMaxAhead = 63;
constexpr int64_t kValid = 2;  // number of batches that stay valid for the consumer

// Returns the number of batches to prefetch. Each thread assembles one of them at a time.
int64_t batches_ahead(const LoaderSpec& spec, size_t batch_bytes) {
  if (spec.prefetch == 0) return 0;
  return std::max(
      {spec.prefetch, spec.threads, std::min(kMaxAhead, static_cast<int64_t>(kRingBytes / batch_bytes) - 1)});
}

// Adds its lifetime to the time for which the consumer has waited.
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

// Ring of `depth` slots: batch n is in slot n mod depth. The consumer holds the kValid batches before `taken` until its
// next call. Producers take turns to begin batches, fill them in parallel, and publish them in order. Each batch with a
// number below `produced` is either complete or has failed.
struct Loader::Ring {
  Ring(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec_)
      : spec(spec_),
        maker(dataset, plan, spec_),
        layout(dataset, maker.largest(), maker.mixes()),
        ahead(batches_ahead(spec_, layout.bytes)),
        depth(ahead + kValid),
        slots(layout, depth) {
    RUN_ASSERT(spec.prefetch == 0 || spec.threads == 1 || !maker.fills_in_turn());
    if (spec.prefetch > 0) start_producers();
  }

  ~Ring() { stop(); }

  void start_producers() {
    const SignalsBlocked blocked;
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
    Augmenter::Scratch scratch;
    for (;;) {
      std::unique_lock turn(turns);
      if (!has_room()) return;
      const backends::ScopedSpan span(backends::SpanKind::kData, "make batch");
      BatchSlot* const slot = begin_next();
      turn.unlock();
      if (slot == nullptr || !fill(*slot, scratch)) return;
      publish(*slot);
    }
  }

  // Blocks until there is a free slot. Returns false if no more batches are to be made.
  bool has_room() {
    if (begun - released.load() == depth) wait_for_room();
    return !stopping.load(std::memory_order_relaxed);
  }

  // Blocks until half of the ring is free, so that one wake-up serves many batches. Wakes earlier if the consumer would
  // otherwise have no batch other than the kValid ones that it holds.
  void wait_for_room() {
    const int64_t half_free = begun - std::max(depth / 2, kValid);
    std::unique_lock lock(mutex);
    awaited.store(half_free);
    wake_producer.wait(lock, [&] { return stopping.load() || released.load() >= half_free; });
    awaited.store(kNothing);
  }

  // Returns null if the batch is left.
  BatchSlot* begin_next() {
    const int64_t number = begun++;
    BatchSlot& slot = slots[number];
    try {
      if (!maker.begin(slot, number, slots, leaves)) return nullptr;
    } catch (...) {
      keep_failure(slot);
    }
    return &slot;
  }

  // Returns false if the batch is left.
  bool fill(BatchSlot& slot, Augmenter::Scratch& scratch) {
    try {
      return slot.failure || maker.fill(slot, scratch, leaves);
    } catch (...) {
      keep_failure(slot);
      return true;
    }
  }

  // Stores the current exception. No batch is begun after a failed one; earlier ones are still delivered.
  void keep_failure(BatchSlot& slot) {
    slot.failure = std::current_exception();
    stopping.store(true);
  }

  // Publishes all complete batches in order. The producer of the next batch due also publishes later ones that other
  // producers have completed. Sequentially consistent atomics ensure that no batch is missed: either the other producer
  // sees that its batch is due, or this one sees that it is complete.
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

  bool is_ready() const { return produced.load() > taken; }

  // Makes a batch on the consumer's thread (without prefetching). Returns false if it is left.
  bool make() {
    const Wait counted(spec.use);
    const backends::ScopedSpan span(backends::SpanKind::kData, "make batch");
    BatchSlot* const slot = begin_next();
    if (slot == nullptr || !fill(*slot, consumer_scratch)) return false;
    publish(*slot);
    return true;
  }

  bool wait(const std::function<bool()>& give_up) {
    if (is_ready()) return true;
    if (spec.prefetch > 0) return wait_for_batch(give_up);
    given_up = &give_up;
    const bool is_made = make();
    given_up = nullptr;
    return is_made;
  }

  // `give_up`: polled while waiting; may be empty.
  bool wait_for_batch(const std::function<bool()>& give_up) {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
    const backends::ScopedSpan span(backends::SpanKind::kData, "wait for batch");
    const Wait counted(spec.use);
    const auto ready = [this] { return is_ready(); };
    waited = true;
    std::unique_lock lock(mutex);
    consumer_waits.store(true);
    if (!give_up) wake_consumer.wait(lock, ready);
    while (!ready() && !give_up()) wake_consumer.wait_for(lock, kBetweenLooks, ready);
    consumer_waits.store(false);
    return is_ready();
  }

  const Batch& take() {
    const int64_t ready = get_ready();
    const BatchSlot& slot = slots[taken];
    if (slot.failure) std::rethrow_exception(slot.failure);
    count_taken(ready);
    ++taken;
    return slot.batch;
  }

  // Blocks until the next batch is published. Returns the number of batches that were ready on entry.
  int64_t get_ready() {
    if (spec.prefetch == 0) {
      if (!is_ready()) make();
      return 0;
    }
    const int64_t free = std::max<int64_t>(taken - (kValid - 1), 0);  // batches that the consumer no longer holds
    released.store(free);
    int64_t want = awaited.load();
    if (free >= want && awaited.compare_exchange_strong(want, kNothing)) wake(wake_producer);
    const int64_t ready = produced.load() - taken;
    if (ready == 0) wait_for_batch({});
    return ready;
  }

  void count_taken(int64_t ready) {
    if (spec.use == nullptr) return;
    ++spec.use->batches;
    // For small batches, the ring contains more than the requested number.
    spec.use->ready += std::exchange(waited, false) ? 0 : std::min(ready, spec.prefetch);
    spec.use->ahead = spec.prefetch;
  }

  // Taking the lock ensures that the other thread has either not checked its condition yet, or is already waiting.
  void wake(std::condition_variable& sleeper) {
    { const std::lock_guard lock(mutex); }
    sleeper.notify_one();
  }

  // Returns whether to leave a batch before it is complete, because no consumer will take it: the loader is being
  // destroyed, or the consumer has given up.
  bool is_left() const { return stopping.load(std::memory_order_relaxed) || (given_up != nullptr && (*given_up)()); }

  static constexpr int64_t kNothing = INT64_MAX;

  const LoaderSpec spec;
  BatchMaker maker;
  const BatchLayout layout;
  const int64_t ahead, depth;
  BatchSlots slots;
  const std::function<bool()> leaves = [this] { return is_left(); };

  // Used by the consumer only.
  int64_t taken = 0;
  bool waited = false;                              // for the next batch
  const std::function<bool()>* given_up = nullptr;  // callback of the current wait() without prefetching
  Augmenter::Scratch consumer_scratch;              // of make()
  // Used by the producers, or by the consumer without prefetching.
  std::mutex turns;
  int64_t begun = 0;  // guarded by `turns`
  alignas(kAlignment) std::atomic<int64_t> produced{0};
  alignas(kAlignment) std::atomic<int64_t> released{0};
  alignas(kAlignment) std::atomic<bool> consumer_waits{false};
  std::atomic<int64_t> awaited{kNothing};  // value of `released` for which a producer waits
  std::atomic<bool> stopping{false};       // no more batches are begun
  std::mutex mutex;                        // orders checks and notifications of the condition variables
  std::condition_variable wake_consumer, wake_producer;
  std::vector<std::thread> producers;  // last, because they use all members above
};

Batch Batch::part(int64_t first, int64_t count) const {
  const auto cut = [&](auto values) {
    const size_t width = values.size() / static_cast<size_t>(size);
    return values.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(count) * width);
  };
  Batch part = *this;
  part.size = count;
  part.largest = count + (first + count == size ? largest - size : 0);
  std::ranges::transform(inputs, part.inputs.begin(), cut);
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
