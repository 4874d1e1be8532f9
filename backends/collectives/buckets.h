// Which gradients are reduced together, as PyTorch's DistributedDataParallel decides.
//
// DDP cuts the gradients into buckets in the order in which the first backward pass made them, which is that of the
// parameters from the last to the first; from the second step on it reduces by these (Reducer::rebuild_buckets; the
// first step reduces all at once).  A bucket ends with the gradient that fills it to its cap or beyond, so that one may
// be larger than the cap, by less than a gradient.  Neighbours in order are neighbours in memory: a bucket is a range.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runner::backends {

// torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, and bucket_cap_mb where it is not given.
inline constexpr int64_t kFirstBucketCap = int64_t{1} << 20;
inline constexpr int64_t kBucketCap = int64_t{25} << 20;

struct Bucket {
  int32_t first, end;  // indices of tensors
  int64_t bytes;
  bool operator==(const Bucket&) const = default;
};

// Cuts tensors of one dtype in this order, the first bucket at `first_cap`:
// torch.distributed._compute_bucket_assignment_by_size(tensors, [first_cap, cap]).
std::vector<Bucket> cut_into_buckets(std::span<const int64_t> bytes, int64_t first_cap, int64_t cap);

// Of gradients with so many bytes, in the order in which the parameters were registered: in the order in which they are
// reduced, as ranges of that order.  As in DDP the first bucket, which is the first to be ready, is small unless the
// cap is another than the default.
std::vector<Bucket> gradient_buckets(std::span<const int64_t> bytes, int64_t cap = kBucketCap);

}  // namespace runner::backends
