// The order of an epoch: a permutation of [0, N) that depends on (N, seed, epoch) alone, never on the number of
// replicas, threads or accumulation steps.
//
// Fisher-Yates over Philox 4x32-10 keyed by the seed, its counter holding the epoch: every permutation is equally
// likely and no earlier epoch is needed.  Not thread-safe while set_epoch runs; one Order belongs to one reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace runner::data {

class Order {
 public:
  // samples: 1 … 2^31 − 1.  shuffle false: the identity in every epoch, which takes no memory.
  Order(int64_t samples, uint64_t seed, bool shuffle);

  // O(samples); nothing to do when the epoch is the current one.  Allocates only in the first call.
  void set_epoch(int64_t epoch);
  // The sample at a position of the current epoch.
  int64_t operator[](int64_t position) const {
    return permutation_.empty() ? position : permutation_[static_cast<size_t>(position)];
  }

 private:
  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int64_t epoch_ = -1;
  std::vector<int32_t> permutation_;
};

}  // namespace runner::data
