// Statistics of the GPU allocator, following torch.cuda.memory_stats.
#pragma once

#include <algorithm>
#include <cstdint>

namespace runner::backends::gpu {

struct Statistic {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t total = 0;  // sum of all increases; "allocated" in PyTorch

  void add(int64_t change) {
    current += change;
    peak = std::max(peak, current);
    total += std::max<int64_t>(change, 0);
  }
};

// Statistics of small blocks, large blocks, or all (PyTorch calls these pools). The comments have PyTorch's names.
struct PoolStatistics {
  Statistic blocks;           // in use: allocation
  Statistic allocated_bytes;  // in use: allocated_bytes
  Statistic requested_bytes;  // in use, before rounding: requested_bytes
  Statistic segments;         // total is num_device_alloc, total - current is num_device_free
  Statistic reserved_bytes;   // of the segments: reserved_bytes
  Statistic split_blocks;     // free parts of segments in use: inactive_split
  Statistic split_bytes;      // of these, that is fragmentation: inactive_split_bytes
};

inline constexpr Statistic PoolStatistics::*kStatistics[] = {
    &PoolStatistics::blocks,     &PoolStatistics::allocated_bytes, &PoolStatistics::requested_bytes,
    &PoolStatistics::segments,   &PoolStatistics::reserved_bytes,  &PoolStatistics::split_blocks,
    &PoolStatistics::split_bytes};

struct MemoryStatistics {
  PoolStatistics all, small, large;
  int64_t retries = 0;  // requests for which cached segments were released: num_alloc_retries
  int64_t ooms = 0;     // of these, failed: num_ooms

  // Reserved, but not in use.
  int64_t unallocated_bytes() const { return all.reserved_bytes.current - all.allocated_bytes.current; }
};

inline constexpr PoolStatistics MemoryStatistics::*kPools[] = {&MemoryStatistics::all, &MemoryStatistics::small,
                                                               &MemoryStatistics::large};

// Calls change(ours, theirs) for each Statistic.
template <class Change>
void for_each_statistic(MemoryStatistics& ours, const MemoryStatistics& theirs, const Change& change) {
  for (const auto pool : kPools)
    for (const auto statistic : kStatistics) change((ours.*pool).*statistic, (theirs.*pool).*statistic);
}

}  // namespace runner::backends::gpu
