// PyTorch's caching allocator in its simplest form: the reference for the fast one.
//
// A segment is a list of its allocations. Free blocks are the gaps, found again for each request, and statistics are
// computed from scratch.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "backends/gpu/memory_statistics.h"

namespace runner::backends::gpu::testing {

class SlowAllocator {
 public:
  struct Got {
    int64_t address, bytes;
  };

  explicit SlowAllocator(int64_t limit) : limit_(limit) {}

  std::optional<Got> allocate(int64_t requested, int stream) {
    int64_t bytes = 512;
    while (bytes < requested) bytes += 512;
    const bool small = bytes <= 1048576;
    std::optional<Got> gap = smallest_gap(bytes, stream, small);
    if (!gap) gap = new_segment(bytes, stream, small);
    if (!gap) {
      ++retries_;
      empty_cache();
      gap = new_segment(bytes, stream, small);
    }
    if (!gap) {
      ++ooms_;
      return std::nullopt;
    }
    const int64_t rest = gap->bytes - bytes;
    const Got got{gap->address, (small ? rest >= 512 : rest > 1048576) ? bytes : gap->bytes};
    segment_at(got.address)->blocks[got.address] = {got.bytes, requested};
    totals_changed();
    return got;
  }

  void free(int64_t address) {
    segment_at(address)->blocks.erase(address);
    totals_changed();
  }

  void empty_cache() {
    std::erase_if(segments_, [](const Segment& segment) { return segment.blocks.empty(); });
    totals_changed();
  }

  const MemoryStatistics& statistics() {
    statistics_.retries = retries_;
    statistics_.ooms = ooms_;
    return statistics_;
  }

  // Whether blocks are within their segments and segments within the device, without overlaps.
  bool is_sound() const {
    int64_t reserved = 0, end = 0;
    for (const Segment& segment : segments_) {
      if (segment.address < end) return false;
      int64_t at = segment.address;
      for (const auto& [address, block] : segment.blocks) {
        if (address < at) return false;
        at = address + block.bytes;
      }
      end = segment.address + segment.bytes;
      if (at > end) return false;
      reserved += segment.bytes;
    }
    return reserved <= limit_;
  }

 private:
  struct Allocated {
    int64_t bytes, requested;
  };
  struct Segment {
    int64_t address, bytes;
    int stream;
    bool small;
    std::map<int64_t, Allocated> blocks;  // by address

    std::vector<Got> gaps() const {
      std::vector<Got> gaps;
      int64_t at = address;
      for (const auto& [begin, block] : blocks) {
        if (begin > at) gaps.push_back({at, begin - at});
        at = begin + block.bytes;
      }
      if (at < address + bytes) gaps.push_back({at, address + bytes - at});
      return gaps;
    }
  };

  std::optional<Got> smallest_gap(int64_t bytes, int stream, bool small) const {
    std::optional<Got> best;
    for (const Segment& segment : segments_) {
      if (segment.stream != stream || segment.small != small) continue;
      for (const Got& gap : segment.gaps())
        if (gap.bytes >= bytes && (!best || gap.bytes < best->bytes)) best = gap;
    }
    return best;
  }

  std::optional<Got> new_segment(int64_t bytes, int stream, bool small) {
    int64_t size = small ? 2097152 : 20971520;
    if (bytes >= 10485760)
      for (size = 0; size < bytes;) size += 2097152;
    int64_t reserved = 0, address = 0;
    for (const Segment& segment : segments_) reserved += segment.bytes;
    if (reserved + size > limit_) return std::nullopt;
    size_t place = 0;
    for (; place < segments_.size() && segments_[place].address < address + size; ++place)
      address = segments_[place].address + segments_[place].bytes;
    segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(place), {address, size, stream, small, {}});
    return Got{address, size};
  }

  Segment* segment_at(int64_t address) {
    for (Segment& segment : segments_)
      if (segment.address <= address && address < segment.address + segment.bytes) return &segment;
    return nullptr;
  }

  void totals_changed() {
    MemoryStatistics now;
    for (const Segment& segment : segments_)
      for (PoolStatistics* pool : {&now.all, segment.small ? &now.small : &now.large}) {
        ++pool->segments.current;
        pool->reserved_bytes.current += segment.bytes;
        for (const auto& [address, block] : segment.blocks) {
          ++pool->blocks.current;
          pool->allocated_bytes.current += block.bytes;
          pool->requested_bytes.current += block.requested;
        }
        if (segment.blocks.empty()) continue;
        for (const Got& gap : segment.gaps()) {
          ++pool->split_blocks.current;
          pool->split_bytes.current += gap.bytes;
        }
      }
    for_each_statistic(statistics_, now, [](Statistic& ours, const Statistic& summed) {
      ours.total += std::max<int64_t>(summed.current - ours.current, 0);
      ours.current = summed.current;
      ours.peak = std::max(ours.peak, ours.current);
    });
  }

  const int64_t limit_;
  std::vector<Segment> segments_;  // by address
  int64_t retries_ = 0, ooms_ = 0;
  MemoryStatistics statistics_;
};

}  // namespace runner::backends::gpu::testing
