#include "runner/data/order.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "schema/base/error.h"

namespace runner::data {
namespace {

constexpr size_t kPart = size_t{1} << 18;  // samples between two polls: a few milliseconds
constexpr size_t kDrawn = 64;

// Calls fill(span) for one part of the values after the other. Returns false once `leaves` returns true.
template <class Fill>
bool in_parts(std::span<int32_t> values, const std::function<bool()>& leaves, const Fill& fill) {
  for (size_t at = 0; at < values.size(); at += kPart) {
    if (leaves && leaves()) return false;
    fill(values.subspan(at, std::min(kPart, values.size() - at)));
  }
  return true;
}

}  // namespace

Order::Order(int64_t samples, uint64_t seed, bool shuffle, int64_t buffer)
    : samples_(samples), seed_(seed), shuffle_(shuffle), buffer_(buffer) {
  RUN_ASSERT(samples >= 1 && samples <= INT32_MAX && buffer >= 0);
}

bool Order::set_epoch(int64_t epoch, const Leaves& leaves) {
  if (!shuffle_ || epoch == epoch_) return true;
  epoch_ = epoch;
  permutation_.resize(static_cast<size_t>(samples_));
  const bool is_complete = (buffer_ == 0 ? permute(leaves) : pass_through_buffer(leaves)) && sort_groups(leaves);
  if (!is_complete) epoch_ = -1;
  return is_complete;
}

// Draws the samples to swap in blocks and prefetches them: with 10^8 samples and more, each is a cache miss.
bool Order::permute(const Leaves& leaves) {
  const bool is_filled = in_parts(permutation_, leaves, [this](std::span<int32_t> part) {
    std::iota(part.begin(), part.end(), static_cast<int32_t>(part.data() - permutation_.data()));
  });
  if (!is_filled) return false;
  RandomSequence random(seed_, Stream::kOrder, static_cast<uint64_t>(epoch_));
  std::array<uint32_t, kDrawn> drawn;
  auto left = static_cast<uint32_t>(samples_);
  for (uint32_t block = 0; left > 1; ++block) {
    if (block % (kPart / kDrawn) == 0 && leaves && leaves()) return false;
    const size_t count = std::min<size_t>(kDrawn, left - 1);
    for (size_t i = 0; i < count; ++i) {
      drawn[i] = random.below(left - static_cast<uint32_t>(i));
      __builtin_prefetch(&permutation_[drawn[i]], 1);
    }
    for (size_t i = 0; i < count; ++i) std::swap(permutation_[--left], permutation_[drawn[i]]);
  }
  return true;
}

// Equally long samples keep their shuffled order.
bool Order::sort_groups(const Leaves& leaves) {
  if (!length_) return true;
  std::vector<std::pair<int64_t, int32_t>> group;  // lengths, and samples
  for (int64_t begin = 0; begin < samples_; begin += kGroup) {
    if (leaves && leaves()) return false;
    const std::span<int32_t> part(&permutation_[static_cast<size_t>(begin)],
                                  static_cast<size_t>(std::min(kGroup, samples_ - begin)));
    const bool longest_first = begin / kGroup % 2 == 0;
    group.clear();
    for (const int32_t sample : part) group.emplace_back(longest_first ? -length_(sample) : length_(sample), sample);
    std::ranges::stable_sort(group, {}, &std::pair<int64_t, int32_t>::first);
    std::ranges::transform(group, part.begin(), &std::pair<int64_t, int32_t>::second);
  }
  return true;
}

bool Order::pass_through_buffer(const Leaves& leaves) {
  int32_t read = 0;
  const auto next = [&](int32_t& sample) {
    if (read == samples_) return false;
    sample = read++;
    return true;
  };
  ShuffleBuffer<int32_t> buffer(buffer_, seed_, epoch_, next);
  return in_parts(permutation_, leaves, [&](std::span<int32_t> part) {
    for (int32_t& sample : part) buffer.take(sample, next);
  });
}

}  // namespace runner::data
