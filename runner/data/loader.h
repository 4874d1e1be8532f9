// Batches of one replica in plan order, from any position, assembled ahead of the consumer.
//
// A thread, or several at once, gathers rows into a ring of preallocated, 64-byte aligned buffers, through epoch after
// epoch; small batches are prepared many at a time (up to 64, or 256 KiB), and each side is woken only when the ring
// was empty or has become half empty.  What it yields depends on the plan, the seed and the transform alone.  After the
// constructor: no heap allocation and no page fault, but those of a transform and of an epoch of a stream.  `prefetch`
// 0 is the plain sequential path: no thread, next() assembles.
//
// One consumer thread.  The data set must outlive the loader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runner/data/dataset.h"
#include "runner/data/plan.h"
#include "runner/data/transform.h"

namespace runner::data {

struct Position {
  int64_t epoch = 0;
  int64_t step = 0;   // within the epoch, or what is left of it behind `start`
  int64_t start = 0;  // positions of the epoch's order that had been used when its plan began anew, with another batch
  bool begins_epoch() const { return step == 0 && start == 0; }
  bool operator==(const Position&) const = default;
};

// B samples; repeats stand last and weigh 0.  A replica that has no batch in this step gets size 0.
struct Batch {
  Position position;
  int64_t size = 0;     // B
  int64_t largest = 0;  // that the plan gives a replica in this step
  int64_t samples = 0;  // of all replicas in this step, repeats not counted
  int64_t repeats = 0;  // of all replicas in this step, and what only fills up batches that have no sample
  bool last_of_epoch = false;
  std::span<const float> features;        // (B, …)
  std::span<const int64_t> classes = {};  // (B), LabelKind::kClass; (B, T) of a text
  std::span<const float> targets = {};    // (B, outputs), LabelKind::kTarget
  std::span<const float> weights;         // (B): 1, or 0 for a repeat
  std::span<const int64_t> ids;           // (B): sample index in the data set

  // Samples that count; without any, what there is only fills it up.
  int64_t real() const {
    return std::ranges::count_if(weights, [](float weight) { return weight != 0; });
  }
  bool weighs() const { return real() > 0; }
  // `count` samples from `first` on; the counts of the step stay those of the whole, and `largest` is the last part's.
  Batch part(int64_t first, int64_t count) const;

  // Where the batch after this one stands.
  Position next() const {
    return last_of_epoch ? Position{position.epoch + 1, 0}
                         : Position{position.epoch, position.step + 1, position.start};
  }
};

// How the consumer of loaders has been served.
struct InputUse {
  int64_t batches = 0;  // that it has taken
  int64_t ready = 0;    // that were ready each time when it asked, added up; no more than `ahead` of each
  int64_t ahead = 0;    // that the recipe asks for
  int64_t wait_ns = 0;  // for a batch; without a thread, to make it

  double mean_ready() const { return batches > 0 ? static_cast<double>(ready) / static_cast<double>(batches) : 0; }
  double wait_seconds() const { return static_cast<double>(wait_ns) * 1e-9; }
};

struct LoaderSpec {
  bool shuffle = true;
  uint64_t seed = 0;
  int64_t replica = 0;
  Position from = {};          // the first to yield; skipping costs the epoch's permutation, or reading what a stream
                               // has before it
  int64_t epochs = INT64_MAX;  // next() fails after the last step of epoch `epochs` − 1
  int64_t prefetch = 4;        // batches prepared ahead, at least
  int64_t threads = 1;         // that prepare them at once; more than 1 with neither a transform nor a stream
  std::shared_ptr<Transform> transform = nullptr;  // null: none; of this loader alone
  bool without_repeats = false;  // shares are not completed: for who takes means of a batch without its mask
  bool never_empty = false;      // a replica that has no batch gets one sample of the epoch, which weighs 0
  InputUse* use = nullptr;       // where it is counted; null: nowhere
};

class Loader {
 public:
  Loader(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec);
  ~Loader();  // stops the threads at once
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, valid until the call behind the following one, so that a device can be at work on it when the next
  // is made ready.  Rethrows what went wrong while it was assembled; after that, and
  // past the last epoch, throws Error(kRun).
  const Batch& next();

  // Waits until next() has a batch, or an error, to give at once: true.  False where `give_up`, which is asked from
  // time to time meanwhile, has said so before: the loader is of no more use then.
  bool wait(const std::function<bool()>& give_up);

  // What next() will give, waited for in the same way, and valid as long; null: next() will make it, or has an error.
  const Batch* peek(const std::function<bool()>& give_up);

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace runner::data
