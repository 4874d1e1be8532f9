// Order of the samples in an epoch: a permutation of [0, N). It depends only on N, the seed and the epoch, and for a
// stream also on the size of the shuffle buffer. The number of ranks, threads and accumulation steps has no effect.
//
// In memory it is a Fisher-Yates shuffle with Philox 4x32-10, keyed by the seed and with the epoch in its counter. All
// permutations are equally likely, and no earlier epoch needs to be computed. Thread safety: none; each reader has its
// own Order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "runner/data/random.h"
#include "schema/base/large_array.h"

namespace runner::data {

class Order {
 public:
  // `samples`: 1 … 2^31 − 1. `shuffle`: if false, every epoch has the identity order, which takes no memory. `buffer`:
  // 0, or the size of a stream's ShuffleBuffer, whose output order is then used.
  Order(int64_t samples, uint64_t seed, bool shuffle, int64_t buffer = 0);

  // Puts samples of similar length next to each other: sorts each kGroup positions of a shuffled epoch by `length`, the
  // longest first and the shortest first by turns. Call it before set_epoch(). Batches of any size profit, and the
  // order does not depend on their size.
  void group_by(std::function<int64_t(int64_t sample)> length) { length_ = std::move(length); }

  // Computes the order of an epoch. Cost: O(samples), nothing if it is the current epoch. Allocates on the first call
  // only. `leaves` is polled meanwhile, about every ten milliseconds. Once it returns true, returns false, and there is
  // no current epoch.
  bool set_epoch(int64_t epoch, const std::function<bool()>& leaves = nullptr);
  // Returns the sample at a position of the current epoch.
  int64_t operator[](int64_t position) const {
    return permutation_.empty() ? position : permutation_[static_cast<size_t>(position)];
  }

 private:
  using Leaves = std::function<bool()>;
  static constexpr int64_t kGroup = 1024;

  bool permute(const Leaves& leaves);
  bool pass_through_buffer(const Leaves& leaves);
  bool sort_groups(const Leaves& leaves);

  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int64_t buffer_;
  std::function<int64_t(int64_t)> length_;  // null: samples are not grouped
  int64_t epoch_ = -1;
  LargeArray<int32_t> permutation_;
};

// Shuffle buffer of a stream, like that of tf.data: holds up to `size` items. Each take() draws one of them uniformly
// and replaces it with the next item of the stream. Size 1 keeps the order. If the buffer holds the whole stream, all
// orders are equally likely.
template <class Item>
class ShuffleBuffer {
 public:
  // `next(Item&)`: sets the argument to the next item of the stream, or returns false at its end.
  template <class Next>
  ShuffleBuffer(int64_t size, uint64_t seed, int64_t epoch, const Next& next)
      : random_(seed, Stream::kBuffer, static_cast<uint64_t>(epoch)) {
    Item item{};
    for (int64_t i = 0; i < size && next(item); ++i) items_.push_back(item);
  }

  std::span<Item> held() { return items_; }

  // Swaps the drawn item with `out`; the stream may reuse the memory of the old `out`. Returns false if no items are
  // left.
  template <class Next>
  bool take(Item& out, const Next& next) {
    if (items_.empty()) return false;
    Item& drawn = items_[random_.below(static_cast<uint32_t>(items_.size()))];
    std::swap(out, drawn);
    if (!next(drawn)) {
      std::swap(drawn, items_.back());
      items_.pop_back();
    }
    return true;
  }

 private:
  RandomSequence random_;
  std::vector<Item> items_;
};

}  // namespace runner::data
