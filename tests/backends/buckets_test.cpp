// Gradient buckets against PyTorch's DistributedDataParallel (tests/golden/buckets.py).
#include "backends/dist/buckets.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace runner::backends {
namespace {

using runner::testing::Golden;

std::vector<int64_t> sorted(std::vector<int64_t> indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<int64_t> indices_of(const Bucket& bucket) {
  std::vector<int64_t> indices(static_cast<size_t>(bucket.end - bucket.first));
  std::iota(indices.begin(), indices.end(), bucket.first);
  return indices;
}

void expect_buckets(const Golden& item, const std::vector<Bucket>& buckets) {
  const std::vector<Golden> wanted = item["buckets"].items();
  ASSERT_EQ(buckets.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(indices_of(buckets[i]), sorted(wanted[i].integers())) << i;
}

TEST(Buckets, MatchDistributedDataParallel) {
  int cut = 0, trained = 0;
  for (const Golden& item : Golden::load("buckets.json").cases()) {
    SCOPED_TRACE(item.name());
    const std::vector<int64_t> bytes = item["bytes"].integers();
    if (item.has("first_cap")) {
      ++cut;
      expect_buckets(item, split_into_buckets(bytes, item["first_cap"].integer(), item["cap"].integer()));
    } else {
      ++trained;
      expect_buckets(item, gradient_buckets(bytes, item["cap"].integer()));
    }
  }
  EXPECT_EQ(cut, 11);
  EXPECT_EQ(trained, 6);
}

TEST(Buckets, AreEmptyWithoutGradients) {
  EXPECT_TRUE(gradient_buckets({}).empty());
}

// Every gradient is in one bucket, from last to first. No bucket could be smaller, and all but the last reach the cap.
TEST(Buckets, ContainEveryGradientOnce) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> bytes(random() % 60);
    for (int64_t& size : bytes) size = static_cast<int64_t>(random() % 100) * 4;
    const int64_t cap = 1 + static_cast<int64_t>(random() % 900);
    const std::vector<Bucket> buckets = gradient_buckets(bytes, cap);
    auto end = static_cast<int32_t>(bytes.size());
    for (const Bucket& bucket : buckets) {
      ASSERT_EQ(bucket.end, end) << seed;
      ASSERT_LT(bucket.first, bucket.end) << seed;
      ASSERT_EQ(bucket.bytes, std::accumulate(bytes.begin() + bucket.first, bytes.begin() + bucket.end, int64_t{0}));
      ASSERT_TRUE(&bucket == &buckets.back() || bucket.bytes >= cap) << seed;
      ASSERT_TRUE(bucket.end - bucket.first == 1 || bucket.bytes - bytes[static_cast<size_t>(bucket.first)] < cap);
      end = bucket.first;
    }
    ASSERT_EQ(end, 0) << seed;
  }
}

}  // namespace
}  // namespace runner::backends
