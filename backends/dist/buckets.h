// Groups gradients into all-reduce buckets like PyTorch's DistributedDataParallel.
//
// DDP fills buckets in the order in which the first backward pass produces gradients, which is the parameters from last
// to first. From the second step on it reduces these buckets (Reducer::rebuild_buckets); the first step reduces
// everything at once. A bucket ends with the gradient that reaches or exceeds the cap, so it may exceed the cap by less
// than one gradient. Neighbours in the order are neighbours in memory, so a bucket is a range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runner::backends {

// torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, and the default of bucket_cap_mb.
inline constexpr int64_t kFirstBucketCap = int64_t{1} << 20;
inline constexpr int64_t kBucketCap = int64_t{25} << 20;

struct Bucket {
  int32_t first, end;  // range of tensor indices
  int64_t bytes;
  bool operator==(const Bucket&) const = default;
};

// Splits tensors of one dtype into buckets, in order. `bytes`: size of each tensor. Equals
// torch.distributed._compute_bucket_assignment_by_size(tensors, [first_cap, cap]).
std::vector<Bucket> split_into_buckets(std::span<const int64_t> bytes, int64_t first_cap, int64_t cap);

// Returns the buckets in the order in which they are reduced, as ranges of parameter indices. `bytes`: size of each
// gradient, in the order in which the parameters were registered. As in DDP, the first bucket to be ready is small if
// `cap` is the default.
std::vector<Bucket> gradient_buckets(std::span<const int64_t> bytes, int64_t cap = kBucketCap);

}  // namespace runner::backends
