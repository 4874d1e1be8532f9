// The order of an epoch: a permutation of [0, N) that depends on (N, seed, epoch), and for a stream on the size of its
// buffer, alone, never on the number of replicas, threads or accumulation steps.
//
// In memory it is Fisher-Yates over Philox 4x32-10 keyed by the seed, its counter holding the epoch: every permutation
// is equally likely and no earlier epoch is needed.  Not thread-safe while set_epoch runs; one Order belongs to one
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runner/data/random.h"

namespace runner::data {

class Order {
 public:
  // samples: 1 … 2^31 − 1.  shuffle false: the identity in every epoch, which takes no memory.  buffer: 0, or the
  // samples that a stream draws from, which gives the order in which ShuffleBuffer gives them out.
  Order(int64_t samples, uint64_t seed, bool shuffle, int64_t buffer = 0);

  // O(samples); nothing to do when the epoch is the current one.  Allocates only in the first call.
  void set_epoch(int64_t epoch);
  // The sample at a position of the current epoch.
  int64_t operator[](int64_t position) const {
    return permutation_.empty() ? position : permutation_[static_cast<size_t>(position)];
  }

 private:
  void permute();
  void pass_through_buffer();

  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int64_t buffer_;
  int64_t epoch_ = -1;
  std::vector<int32_t> permutation_;
};

// Holds the next `size` items of a stream and gives them out in an order that is drawn: each time one of those held,
// all equally likely, to whose place the stream's next moves.  A buffer of 1 keeps the order; one as large as the
// stream makes every order equally likely.
template <class Item>
class ShuffleBuffer {
 public:
  // next(Item&) sets the item to the stream's next, or returns false at its end.
  template <class Next>
  ShuffleBuffer(int64_t size, uint64_t seed, int64_t epoch, const Next& next)
      : random_(seed, Stream::kBuffer, static_cast<uint64_t>(epoch)) {
    Item item{};
    for (int64_t i = 0; i < size && next(item); ++i) items_.push_back(item);
  }

  std::span<Item> held() { return items_; }

  // Swaps the next item with `out`, whose memory the stream may use again; false when there is none left.
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
