#include "runner/data/order.h"

#include <numeric>
#include <utility>

#include "runner/data/random.h"
#include "schema/error.h"

namespace runner::data {

Order::Order(int64_t samples, uint64_t seed, bool shuffle) : samples_(samples), seed_(seed), shuffle_(shuffle) {
  RUN_ASSERT(samples >= 1 && samples <= INT32_MAX);
}

void Order::set_epoch(int64_t epoch) {
  if (!shuffle_ || epoch == epoch_) return;
  epoch_ = epoch;
  permutation_.resize(static_cast<size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  RandomSequence random(seed_, Stream::kOrder, static_cast<uint64_t>(epoch));
  for (auto left = static_cast<uint32_t>(samples_); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.below(left)]);
  }
}

}  // namespace runner::data
