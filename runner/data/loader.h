// Loads the batches of one rank in plan order, starting at any position, and prefetches them.
//
// One or more threads gather samples into a ring of preallocated, 64-byte aligned buffers, across epochs. Small batches
// are prefetched in bulk (up to 64, or 256 KiB). Threads are woken only if the ring was empty or has become half empty.
// The batches depend only on the plan, the seed and the transform. After the first batch there are no heap allocations
// and no page faults, except in reading a stream or files of images, and in a transform. With `prefetch` 0 there is no
// thread: next() assembles the batch.
//
// Thread safety: one consumer thread. The data set must outlive the loader.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runner/data/augment.h"
#include "runner/data/dataset.h"
#include "runner/data/inputs.h"
#include "runner/data/plan.h"
#include "runner/data/transform.h"

namespace runner::data {

struct Position {
  int64_t epoch = 0;
  int64_t step = 0;   // batch within the epoch, counted from `start`
  int64_t start = 0;  // positions of the epoch's order that were consumed before the plan was restarted with another
                      // batch size
  bool begins_epoch() const { return step == 0 && start == 0; }
  bool operator==(const Position&) const = default;
};

// A batch of B samples. Padding samples come last and have weight 0. The size is 0 if the rank has no batch in this
// step.
struct Batch {
  Position position;
  int64_t size = 0;
  int64_t length = 0;   // tokens per sample if they differ between batches (Dataset::has_lengths()); else 0
  int64_t largest = 0;  // largest batch of any rank in this step
  int64_t samples = 0;  // number of samples of all ranks in this step, without padding
  int64_t repeats = 0;  // number of padding samples of all ranks in this step, including those of otherwise empty
                        // batches
  bool last_of_epoch = false;
  std::array<std::span<const std::byte>, kMaxInputs> inputs;  // (B, …) of each of Dataset::inputs(), or
                                                              // (B, length); else empty
  std::span<const int64_t> classes = {};                      // (B) with LabelKind::kClass; (B, T) for a text
  std::span<const float> targets = {};                        // (B, outputs) with LabelKind::kTarget; if samples are
                                                              // mixed, probabilities of the classes, which replace
                                                              // `classes`
  std::span<const float> weights;                             // (B): 1, or 0 for a padding sample
  std::span<const int64_t> ids;                               // (B): rows of the file (Dataset::file_row)

  BatchShape shape() const { return {size, length}; }

  // The first input: (B, …) features, or (B, T) tokens of a text.
  std::span<const float> features() const { return values_of<float>(inputs[0]); }
  std::span<const int64_t> tokens() const { return values_of<int64_t>(inputs[0]); }

  // Number of samples that are not padding.
  int64_t real() const {
    return std::ranges::count_if(weights, [](float weight) { return weight != 0; });
  }
  bool weighs() const { return real() > 0; }
  // Returns `count` samples starting at `first` as a micro-batch. The counts of the step remain those of the whole
  // batch. `largest` is adjusted so that the last micro-batches of all ranks can be padded to the same size.
  Batch part(int64_t first, int64_t count) const;

  // Returns the position of the following batch.
  Position next() const {
    return last_of_epoch ? Position{position.epoch + 1, 0}
                         : Position{position.epoch, position.step + 1, position.start};
  }
};

// Statistics about how fast the loaders serve their consumer.
struct InputUse {
  int64_t batches = 0;  // batches taken
  int64_t ready = 0;    // sum over the batches taken of how many were ready, each counted up to `ahead`
  int64_t ahead = 0;    // number of batches to prefetch, from the recipe
  int64_t wait_ns = 0;  // time spent waiting for batches, or assembling them without prefetching

  double mean_ready() const { return batches > 0 ? static_cast<double>(ready) / static_cast<double>(batches) : 0; }
  double wait_seconds() const { return static_cast<double>(wait_ns) * 1e-9; }
};

struct LoaderSpec {
  bool shuffle = true;
  bool by_length = false;  // samples of similar length follow each other (Order::group_by()); needs texts and shuffle
  uint64_t seed = 0;       // of the order and of the draws of samples (SampleKey)
  int64_t rank = 0;
  Position from = {};          // first batch; skipping costs the permutation of the epoch, or reading a stream up to it
  int64_t epochs = INT64_MAX;  // next() throws after the last step of epoch `epochs` − 1
  int64_t prefetch = 4;        // minimum number of batches to prefetch
  int64_t threads = 1;         // threads that assemble batches; more than 1 requires that there is neither a transform
                               // nor a stream
  std::shared_ptr<const Augmenter> augmenter = nullptr;  // null if there is none; only for samples in memory
  std::shared_ptr<Transform> transform = nullptr;        // null if there is none; not shared with other loaders
  bool without_repeats = false;  // no padding samples, for consumers that average over a batch without its weights
  bool never_empty = false;      // gives a rank without a batch one sample of the epoch, with weight 0
  InputUse* use = nullptr;       // counters to update; null to count nothing
};

class Loader {
 public:
  Loader(const Dataset& dataset, const DataPlan& plan, const LoaderSpec& spec);
  ~Loader();  // stops and joins the threads; a transform in progress is left incomplete
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch. It is valid until the second call after this one, so that a device can use it while the
  // next one is prepared. Rethrows an exception from assembling the batch. After that, and after the last epoch, throws
  // Error(kRun).
  const Batch& next();

  // Blocks until next() can return or throw without waiting, and returns true. `give_up` is polled meanwhile. If it
  // returns true first, wait() returns false, and the loader must not be used further.
  bool wait(const std::function<bool()>& give_up);

  // Waits like wait() and returns the batch that next() will return, with the same validity. Returns null without
  // prefetching, if `give_up` returned true, or if next() will throw.
  const Batch* peek(const std::function<bool()>& give_up);

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace runner::data
