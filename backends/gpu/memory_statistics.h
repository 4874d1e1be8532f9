// What the allocator of a GPU counts, as torch.cuda.memory_stats has it.  Values.
#pragma once

#include <algorithm>
#include <cstdint>

namespace runner::backends::gpu {

struct Statistic {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t total = 0;  // of all increases: torch's "allocated"

  void add(int64_t change) {
    current += change;
    peak = std::max(peak, current);
    total += std::max<int64_t>(change, 0);
  }
};

// Of small blocks, of large ones, or of both; torch calls either a pool.  Its name stands behind each.
struct PoolStatistics {
  Statistic blocks;           // that somebody has: allocation
  Statistic allocated_bytes;  // of these blocks: allocated_bytes
  Statistic requested_bytes;  // that were asked for, without rounding: requested_bytes
  Statistic segments;         // total, and total - current: num_device_alloc and num_device_free
  Statistic reserved_bytes;   // of the segments
  Statistic split_blocks;     // free parts of segments that are in use: inactive_split
  Statistic split_bytes;      // of these, so what is fragmented: inactive_split_bytes
};

inline constexpr Statistic PoolStatistics::*kStatistics[] = {
    &PoolStatistics::blocks,     &PoolStatistics::allocated_bytes, &PoolStatistics::requested_bytes,
    &PoolStatistics::segments,   &PoolStatistics::reserved_bytes,  &PoolStatistics::split_blocks,
    &PoolStatistics::split_bytes};

struct MemoryStatistics {
  PoolStatistics all, small, large;
  int64_t retries = 0;  // requests for which cached segments were given back: num_alloc_retries
  int64_t ooms = 0;     // of these, refused: num_ooms

  // Reserved, and nobody has it.
  int64_t unallocated_bytes() const { return all.reserved_bytes.current - all.allocated_bytes.current; }
};

inline constexpr PoolStatistics MemoryStatistics::*kPools[] = {&MemoryStatistics::all, &MemoryStatistics::small,
                                                               &MemoryStatistics::large};

// change(ours, theirs) for each Statistic of both.
template <class Change>
void for_each_statistic(MemoryStatistics& ours, const MemoryStatistics& theirs, const Change& change) {
  for (const auto pool : kPools)
    for (const auto statistic : kStatistics) change((ours.*pool).*statistic, (theirs.*pool).*statistic);
}

}  // namespace runner::backends::gpu
