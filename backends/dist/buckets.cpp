#include "backends/dist/buckets.h"

namespace runner::backends {

std::vector<Bucket> split_into_buckets(std::span<const int64_t> bytes, int64_t first_cap, int64_t cap) {
  std::vector<Bucket> buckets;
  Bucket open{};
  for (const int64_t size : bytes) {
    ++open.end;
    open.bytes += size;
    if (open.bytes < (buckets.empty() ? first_cap : cap)) continue;
    buckets.push_back(open);
    open = {.first = open.end, .end = open.end, .bytes = 0};
  }
  if (open.end > open.first) buckets.push_back(open);
  return buckets;
}

std::vector<Bucket> gradient_buckets(std::span<const int64_t> bytes, int64_t cap) {
  const std::vector<int64_t> ready(bytes.rbegin(), bytes.rend());
  std::vector<Bucket> buckets = split_into_buckets(ready, cap == kBucketCap ? kFirstBucketCap : cap, cap);
  const auto count = static_cast<int32_t>(bytes.size());
  for (Bucket& bucket : buckets) bucket = {count - bucket.end, count - bucket.first, bucket.bytes};
  return buckets;
}

}  // namespace runner::backends
