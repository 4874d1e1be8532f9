#include "runner/data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/runtime/spans.h"
#include "backends/tensor/alignment.h"
#include "runner/data/order.h"
#include "runner/data/stream.h"
#include "schema/error.h"
#include "store/signals_blocked.h"

namespace runner::data {
namespace {

using backends::aligned;
using backends::kAlignment;

constexpr size_t kRingBytes = size_t{256} << 10;  // small batches are prepared ahead up to this, within a core's L2
constexpr int64_t kMostAhead = 63;
constexpr int64_t kValid = 2;  // batches that the consumer has

struct Free {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kAlignment}); }
};

// Zeroed, so that every page is there before the first batch.
std::unique_ptr<std::byte[], Free> allocate(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlignment}));
  std::fill_n(memory, bytes, std::byte{0});
  return std::unique_ptr<std::byte[], Free>(memory);
}

// Where the parts of one batch lie in its slot.
struct Layout {
  size_t features, labels, weights, ids, bytes;

  Layout(const Dataset& dataset, int64_t batch) {
    const auto size = static_cast<size_t>(batch);
    const bool targets = dataset.label_kind() == LabelKind::kTarget;
    const size_t label_bytes = targets ? sizeof(float) * static_cast<size_t>(dataset.outputs())
                                       : sizeof(int64_t) * static_cast<size_t>(dataset.label_width());
    features = 0;
    labels = aligned(size * static_cast<size_t>(dataset.feature_shape().elements()) * sizeof(float));
    weights = labels + aligned(size * label_bytes);
    ids = weights + aligned(size * sizeof(float));
    bytes = ids + aligned(size * sizeof(int64_t));
  }
};

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
// taken − 1, kValid of them, until it asks for the next one.
struct Loader::Ring {
  Ring(const Dataset& dataset_, const DataPlan& plan_, const LoaderSpec& spec_)
      : dataset(dataset_),
        whole(plan_),
        rest(plan_.from(spec_.from.start)),
        spec(spec_),
        order(plan_.spec().samples, spec_.seed, spec_.shuffle && dataset_.shuffle_buffer() == 0),
        at(spec_.from),
        layout(dataset_, std::max(whole.max_batch(), rest.max_batch())),
        ahead(
            spec_.prefetch == 0
                ? 0
                : std::max(spec_.prefetch, std::min(kMostAhead, static_cast<int64_t>(kRingBytes / layout.bytes) - 1))),
        depth(ahead + kValid),
        slots(allocate(static_cast<size_t>(depth) * layout.bytes)),
        batches(static_cast<size_t>(depth)) {
    RUN_ASSERT(at.step >= 0 && at.step <= rest.steps_per_epoch() && whole.steps_per_epoch() > 0);
    if (at.step == rest.steps_per_epoch()) at = {at.epoch + 1, 0};
    if (dataset.shuffle_buffer() > 0) {
      const int64_t r = spec.replica;
      stream.emplace(
          dataset, spec.seed, spec.shuffle,
          std::max({repeated_from_start(whole, r), repeated_from_start(rest, r), int64_t{spec.never_empty}}));
    }
    if (at.epoch < spec.epochs) order.set_epoch(at.epoch);
    if (spec.prefetch > 0) start_producer();
  }

  void start_producer() {
    const store::SignalsBlocked blocked;
    thread = std::thread([this, recorder = backends::RecordingThread::recorder()] {
      const backends::RecordingThread recording(recorder, "loader");
      produce();
    });
  }

  ~Ring() {
    {
      const std::lock_guard lock(mutex);
      stopping.store(true, std::memory_order_relaxed);
    }
    wake_producer.notify_one();
    if (thread.joinable()) thread.join();
  }

  void assemble(int64_t number) {
    const backends::ScopedSpan span(backends::SpanKind::kData, "make batch");
    RUN_CHECK(at.epoch < spec.epochs, ErrorKind::kRun, "the data ends after {} epochs", spec.epochs);
    const auto slot = static_cast<size_t>(number % depth);
    std::byte* const memory = slots.get() + slot * layout.bytes;
    order.set_epoch(at.epoch);
    const DataPlan& plan = at.start == 0 ? whole : rest;
    const Slice slice = share(plan, spec.replica);
    const auto size = static_cast<size_t>(slice.size());

    const std::span features(reinterpret_cast<float*>(memory),
                             size * static_cast<size_t>(dataset.feature_shape().elements()));
    const std::span weights(reinterpret_cast<float*>(memory + layout.weights), size);
    BatchRows rows{.ids = std::span(reinterpret_cast<int64_t*>(memory + layout.ids), size), .features = features};
    std::byte* const labels = memory + layout.labels;
    if (dataset.label_kind() == LabelKind::kClass) {
      rows.classes = std::span(reinterpret_cast<int64_t*>(labels), size * static_cast<size_t>(dataset.label_width()));
    } else if (dataset.label_kind() == LabelKind::kTarget) {
      rows.targets = std::span(reinterpret_cast<float*>(labels), size * static_cast<size_t>(dataset.outputs()));
    }
    read(slice, rows);
    std::fill(weights.begin(), weights.begin() + slice.real, 1.0f);
    std::fill(weights.begin() + slice.real, weights.end(), 0.0f);

    Batch& batch = batches[slot];
    batch = {.position = at,
             .size = slice.size(),
             .largest = plan.largest_share(at.step),
             .samples = plan.consumed(at.step + 1) - plan.consumed(at.step),
             .repeats = repeats(plan),
             .last_of_epoch = at.step + 1 == plan.steps_per_epoch(),
             .features = features,
             .classes = rows.classes,
             .targets = rows.targets,
             .weights = weights,
             .ids = rows.ids};
    if (spec.transform) transform(number, features, batch);
    at = batch.next();
  }

  // What a replica gets in the step at hand.
  Slice share(const DataPlan& plan, int64_t replica) const {
    Slice slice = plan.slice(replica, at.step);
    if (spec.without_repeats) slice.repeats = 0;
    if (slice.size() == 0 && spec.never_empty) slice = {.repeats = 1, .pool = plan.spec().samples};
    return slice;
  }

  // A whole step has none, unless its samples are fewer than the replicas.
  int64_t repeats(const DataPlan& plan) const {
    const int64_t replicas = plan.spec().processes;
    const bool whole_step = at.step + 1 < plan.steps_per_epoch() && plan.global_batch_size() >= replicas;
    int64_t count = 0;
    for (int64_t replica = 0; replica < replicas && !whole_step; ++replica) count += share(plan, replica).repeats;
    return count;
  }

  void read(const Slice& slice, const BatchRows& rows) {
    if (stream) return stream->read(at.epoch, slice, rows);
    sample_ids(slice, order, rows.ids);
    dataset.gather_features(rows.ids, rows.features);
    if (!rows.classes.empty()) dataset.gather_classes(rows.ids, rows.classes);
    if (!rows.targets.empty()) dataset.gather_targets(rows.ids, rows.targets);
  }

  // Left half done, as nobody takes the batch: the loader is about to go, or who waits for it has given up.
  bool leaves() { return stopping.load(std::memory_order_relaxed) || (given_up && (*given_up)()); }

  // features: those of `batch`, the number-th.
  void transform(int64_t number, std::span<float> features, const Batch& batch) {
    const auto width = static_cast<size_t>(dataset.feature_shape().elements());
    const auto targets = batch.targets.empty() ? 0 : static_cast<size_t>(dataset.outputs());
    for (size_t i = 0; i < batch.ids.size() && !leaves(); ++i)
      spec.transform->apply({.shape = dataset.feature_shape(),
                             .features = features.subspan(i * width, width),
                             .label = batch.classes.empty() ? 0 : batch.classes[i],
                             .targets = batch.targets.subspan(i * targets, targets),
                             .id = batch.ids[i],
                             .epoch = batch.position.epoch,
                             .batch = number});
  }

  void produce() {
    try {
      for (int64_t number = 0;; ++number) {
        if (number - released.load() == depth && !wait_for_room(number)) return;
        if (stopping.load(std::memory_order_relaxed)) return;
        assemble(number);
        produced.store(number + 1);
        if (consumer_waits.load()) wake(wake_consumer);
      }
    } catch (...) {
      failure = std::current_exception();
      failed.store(true);
      wake(wake_consumer);
    }
  }

  // Sleeps until half of the ring is free, so that one wake-up serves many batches; false: stop.
  bool wait_for_room(int64_t number) {
    std::unique_lock lock(mutex);
    producer_waits.store(true);
    wake_producer.wait(lock, [&] { return stopping || number - released.load() <= depth / 2; });
    producer_waits.store(false);
    return !stopping;
  }

  // Without a thread: take() is to give the batch, or what went wrong.
  void assemble_early() {
    assembled = true;
    try {
      assemble_in_time();
    } catch (...) {
      failure = std::current_exception();
    }
  }

  bool wait(const std::function<bool()>& give_up) {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
    if (spec.prefetch == 0) {
      if (assembled) return true;
      given_up = &give_up;
      assemble_early();
      given_up = nullptr;
      return failure != nullptr || !spec.transform || !give_up();
    }
    const auto is_there = [&] { return produced.load() > taken || failed.load(); };
    if (is_there()) return true;
    const backends::ScopedSpan span(backends::SpanKind::kData, "wait for batch");
    const Wait counted(spec.use);
    waited = true;
    std::unique_lock lock(mutex);
    consumer_waits.store(true);
    while (!is_there() && !give_up()) wake_consumer.wait_for(lock, kBetweenLooks, is_there);
    consumer_waits.store(false);
    return is_there();
  }

  const Batch& take() {
    if (spec.prefetch == 0) {
      if (!std::exchange(assembled, false)) assemble_in_time();
      if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
      count_taken(0);
      return batches[static_cast<size_t>(taken++ % depth)];
    }
    released.store(std::max<int64_t>(taken - (kValid - 1), 0));  // the slots of those before are free
    const int64_t ready = produced.load() - taken;
    if (producer_waits.load() && ready <= depth / 2) wake(wake_producer);
    if (ready == 0) wait_for_batch();
    count_taken(ready);
    return batches[static_cast<size_t>(taken++ % depth)];
  }

  // The consumer's, for spec.use.
  void count_taken(int64_t ready) {
    if (spec.use == nullptr) return;
    ++spec.use->batches;
    spec.use->ready += std::exchange(waited, false) ? 0 : ready;
    spec.use->ahead = ahead;
  }
  void assemble_in_time() {
    const Wait counted(spec.use);
    assemble(taken);
  }

  void wait_for_batch() {
    const backends::ScopedSpan span(backends::SpanKind::kData, "wait for batch");
    const Wait counted(spec.use);
    waited = true;
    std::unique_lock lock(mutex);
    consumer_waits.store(true);
    wake_consumer.wait(lock, [&] { return produced.load() > taken || failed.load(); });
    consumer_waits.store(false);
    if (produced.load() == taken) std::rethrow_exception(failure);
  }

  // The lock orders the notification after the other side's check of its condition.
  void wake(std::condition_variable& sleeper) {
    { const std::lock_guard lock(mutex); }
    sleeper.notify_one();
  }

  const Dataset& dataset;
  const DataPlan whole, rest;  // of an epoch, and of what the first one has left
  const LoaderSpec spec;
  // The producer's: the thread, or take() without one.
  Order order;
  std::optional<StreamReader> stream;
  Position at;
  const Layout layout;
  const int64_t ahead, depth;
  const std::unique_ptr<std::byte[], Free> slots;
  std::vector<Batch> batches;
  std::exception_ptr failure;  // set before `failed`

  int64_t taken = 0;    // the consumer's
  bool waited = false;  // for the batch that it takes next
  // Without a thread: what may end assemble() early, and whether the batch that is taken next is there.
  const std::function<bool()>* given_up = nullptr;
  bool assembled = false;
  alignas(kAlignment) std::atomic<int64_t> produced{0};
  alignas(kAlignment) std::atomic<int64_t> released{0};
  alignas(kAlignment) std::atomic<bool> consumer_waits{false};
  std::atomic<bool> producer_waits{false};
  std::atomic<bool> failed{false};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake_consumer, wake_producer;
  std::thread thread;  // last: it uses all of the above
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
