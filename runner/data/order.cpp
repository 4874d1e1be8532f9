#include "runner/data/order.h"

#include <numeric>

#include "schema/base/error.h"

namespace runner::data {

Order::Order(int64_t samples, uint64_t seed, bool shuffle, int64_t buffer)
    : samples_(samples), seed_(seed), shuffle_(shuffle), buffer_(buffer) {
  RUN_ASSERT(samples >= 1 && samples <= INT32_MAX && buffer >= 0);
}

void Order::set_epoch(int64_t epoch) {
  if (!shuffle_ || epoch == epoch_) return;
  epoch_ = epoch;
  permutation_.resize(static_cast<size_t>(samples_));
  buffer_ == 0 ? permute() : pass_through_buffer();
}

void Order::permute() {
  std::iota(permutation_.begin(), permutation_.end(), 0);
  RandomSequence random(seed_, Stream::kOrder, static_cast<uint64_t>(epoch_));
  for (auto left = static_cast<uint32_t>(samples_); left > 1; --left) {
    std::swap(permutation_[left - 1], permutation_[random.below(left)]);
  }
}

void Order::pass_through_buffer() {
  int32_t read = 0;
  const auto next = [&](int32_t& sample) {
    if (read == samples_) return false;
    sample = read++;
    return true;
  };
  ShuffleBuffer<int32_t> buffer(buffer_, seed_, epoch_, next);
  for (int32_t& sample : permutation_) buffer.take(sample, next);
}

}  // namespace runner::data
