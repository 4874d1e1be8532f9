#include "runner/data/order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "runner/data/random.h"

namespace runner::data {
namespace {

std::vector<int64_t> order_of(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle = true) {
  Order order(samples, seed, shuffle);
  order.set_epoch(epoch);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < samples; ++i) values.push_back(order[i]);
  return values;
}

TEST(RandomSequence, BelowIsUniformAndInRange) {
  RandomSequence random(1, Stream::kOrder, 0);
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 450);  // five standard deviations
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Symmetric, SpansTheHalfOpenInterval) {
  EXPECT_EQ(symmetric(0), 0.0f);
  EXPECT_EQ(symmetric(0x8000), -1.0f);
  EXPECT_EQ(symmetric(0x7fff), 1.0f - 0x1p-15f);
  EXPECT_EQ(symmetric(0xffff), -0x1p-15f);
}

TEST(Order, IsAPermutation) {
  for (const int64_t samples : {1, 2, 3, 7, 64, 1437, 100000}) {
    std::vector<int64_t> order = order_of(samples, 42, 3), identity(order.size());
    std::sort(order.begin(), order.end());
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(order, identity) << samples;
  }
}

TEST(Order, IsTheIdentityWithoutShuffle) {
  EXPECT_EQ(order_of(5, 42, 7, false), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// Each group of 1024 positions has the samples that it has without grouping, sorted by length.
TEST(Order, GroupsSamplesOfSimilarLength) {
  constexpr int64_t kSamples = 2500, kGroup = 1024;
  const auto length = [](int64_t sample) { return sample * 7 % 31; };
  const auto grouped_order = [&](int64_t epoch) {
    Order order(kSamples, 42, true);
    order.group_by(length);
    order.set_epoch(epoch);
    std::vector<int64_t> values;
    for (int64_t i = 0; i < kSamples; ++i) values.push_back(order[i]);
    return values;
  };
  const std::vector<int64_t> plain = order_of(kSamples, 42, 3), grouped = grouped_order(3);
  for (int64_t begin = 0; begin < kSamples; begin += kGroup) {
    const int64_t end = std::min(begin + kGroup, kSamples);
    std::vector<int64_t> want(plain.begin() + begin, plain.begin() + end);
    const bool longest_first = begin / kGroup % 2 == 0;
    std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
      return longest_first ? length(a) > length(b) : length(a) < length(b);
    });
    EXPECT_EQ(std::vector<int64_t>(grouped.begin() + begin, grouped.begin() + end), want) << begin;
  }
  EXPECT_NE(grouped_order(4), grouped);
}

// Resuming from a checkpoint depends on the order: these values must never change.
TEST(Order, NeverChanges) {
  EXPECT_EQ(order_of(10, 42, 0), (std::vector<int64_t>{4, 7, 3, 5, 6, 9, 1, 2, 0, 8}));
  EXPECT_EQ(order_of(10, 42, 1), (std::vector<int64_t>{2, 8, 5, 6, 7, 9, 0, 4, 3, 1}));
}

// Sizes around those of the blocks in which samples are drawn and of the parts between polls.
TEST(Order, IsTheShuffleOfFisherAndYates) {
  for (const int64_t samples : {2, 63, 64, 65, 66, 129, (1 << 18) - 1, (1 << 18) + 65, 600000}) {
    std::vector<int64_t> expected(static_cast<size_t>(samples));
    std::iota(expected.begin(), expected.end(), 0);
    RandomSequence random(9, Stream::kOrder, 2);
    for (size_t left = expected.size(); left > 1; --left)
      std::swap(expected[left - 1], expected[random.below(static_cast<uint32_t>(left))]);
    EXPECT_EQ(order_of(samples, 9, 2), expected) << samples;
  }
}

// Left at each poll in turn, and complete afterwards.
TEST(Order, CanBeLeft) {
  constexpr int64_t kSamples = 1'000'000;
  for (const int64_t buffer : {0, 100}) {
    int polls = 0;
    Order whole(kSamples, 9, true, buffer), left(kSamples, 9, true, buffer);
    EXPECT_TRUE(whole.set_epoch(3, [&] { return ++polls < 0; }));
    EXPECT_GE(polls, buffer == 0 ? 8 : 4);
    for (int most = 0; most < polls; ++most) {
      int count = 0;
      EXPECT_FALSE(left.set_epoch(3, [&] { return count++ == most; }));
      EXPECT_EQ(count, most + 1) << "the order continues after it was left";
    }
    EXPECT_TRUE(left.set_epoch(3));
    for (int64_t i = 0; i < kSamples; ++i) ASSERT_EQ(left[i], whole[i]);
  }
}

TEST(Order, DiffersBetweenEpochsAndSeeds) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (int64_t epoch = 0; epoch < 8; ++epoch) orders.insert(order_of(50, seed, epoch));
  }
  EXPECT_EQ(orders.size(), 64u);  // seed 0 epoch 1 differs from seed 1 epoch 0
}

TEST(Order, NeedsNoEarlierEpoch) {
  Order order(1000, 7, true);
  for (const int64_t epoch : {0, 1, 2, 3, 2, 0}) {
    order.set_epoch(epoch);
    const std::vector<int64_t> fresh = order_of(1000, 7, epoch);
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(order[i], fresh[static_cast<size_t>(i)]);
  }
}

TEST(Order, AllPermutationsAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 12000; ++epoch) ++counts[order_of(4, 5, epoch)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 500, 110);
}

}  // namespace
}  // namespace runner::data
