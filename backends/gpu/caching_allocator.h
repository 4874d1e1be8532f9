// The allocator of an emulated GPU: PyTorch's caching allocator over virtual addresses.  No memory is touched.
//
// Rules, those of c10/cuda/CUDACachingAllocator.cpp (PyTorch, commit 001074d2) with its default settings:
// 1. a request is rounded up to 512 bytes; up to 1 MiB it is small, else large, and of either a pool keeps the blocks
//    apart;
// 2. it gets the smallest free block of its pool and kind that holds it, of equal ones that with the lowest address;
// 3. what is left of that block becomes a free block where it has 512 bytes or more (of a small one), or more than
//    1 MiB (of a large one); else it stays with the block;
// 4. where no block holds it, a segment is taken from the device: of 2 MiB for small ones, of 20 MiB for less than
//    10 MiB, else of the request rounded up to 2 MiB;
// 5. where the device has not so much left, it is given back every segment that is free as a whole, and asked again;
// 6. a block that is freed merges with free neighbours; its segment is kept;
// 7. segments of a pool that is pinned stay until the end: a captured graph has their addresses.
// A segment has the lowest address at which it fits; on a real device that is the driver's affair.
//
// Invariants: blocks of a segment lie behind each other and fill it, and no two neighbours among them are free.
// Allocating and freeing take no memory of the host once as many blocks have been there.  Thread safety: one thread at
// a time; it is the host that allocates, when it launches.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/gpu/memory_statistics.h"
#include "backends/tensor/byte_units.h"

namespace runner::backends::gpu {

inline constexpr int64_t kLeastBlock = 512;
inline constexpr int64_t kLargestSmall = kMiB;      // request
inline constexpr int64_t kSmallSegment = 2 * kMiB;  // the least that a device gives
inline constexpr int64_t kMediumSegment = 20 * kMiB;
inline constexpr int64_t kLeastWhole = 10 * kMiB;  // request that has a segment of its own size
inline constexpr int64_t kSegmentStep = 2 * kMiB;

using PoolId = int32_t;    // memory that is apart from all other: a stream's, or that of captured graphs
using OwnerId = uint32_t;  // whose memory it is: the caller knows
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

struct Block {
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t requested = 0;  // of an allocated block
  OwnerId owner = 0;      // likewise
  PoolId pool = 0;
  bool is_small = false;
  BlockId previous = kNoBlock, next = kNoBlock;  // in the segment
  bool allocated = false;

  bool is_split() const { return previous != kNoBlock || next != kNoBlock; }
};

// A block as whoever compares states sees it: all that decides where later requests go.
struct Extent {
  int64_t address = 0, bytes = 0;
  PoolId pool = 0;
  bool is_small = false, begins_segment = false, allocated = false;
  bool operator==(const Extent&) const = default;
};

// What one owner has.
struct OwnerUse {
  OwnerId owner = 0;
  int64_t bytes = 0, blocks = 0;
};

class CachingAllocator {
 public:
  // Of a device with so many bytes.  Throws Error(kRecipe) where that is less than one segment.
  explicit CachingAllocator(int64_t limit);

  // bytes: 1 to 2^62.  kNoBlock: the device has not so much; blocks are as they were then, cached segments are gone.
  BlockId allocate(int64_t bytes, PoolId pool, OwnerId owner);
  // Gives a block to its pool.  Whoever uses it on another stream than the pool's frees it when that has come behind.
  void free(BlockId id);
  // Gives segments that are free as a whole back to the device.
  void empty_cache();
  void pin(PoolId pool) { pinned_ = pool; }
  int64_t pinned_bytes() const;  // of the segments that stay

  void set_owner(BlockId id, OwnerId owner) { blocks_[static_cast<size_t>(id)].owner = owner; }

  int64_t limit() const { return limit_; }
  const Block& block(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  // The largest free block that may become one of so many bytes; 0: there is none.
  int64_t largest_free(int64_t bytes, PoolId pool) const;
  // What is allocated, by address.
  std::vector<BlockId> allocated() const;
  // Most bytes first, then by number.
  std::vector<OwnerUse> uses() const;

  const MemoryStatistics& statistics() const { return statistics_; }
  void reset_peaks();

  // For whoever knows what a sequence of requests comes to (memory_account.h).  All blocks, by address.
  void copy_layout(std::vector<Extent>& to) const;
  bool has_layout(std::span<const Extent> layout) const;
  // Allocates what lies at `address`, in the middle of a free block, and counts nothing.
  BlockId place(int64_t address, int64_t bytes, int64_t requested, OwnerId owner);
  // `change`: what currents and totals grow by, and how far peaks lie above the currents that were.
  void count(const MemoryStatistics& change);
  // Of a request that is known to fail, whatever goes back before.
  void count_refusal() {
    ++statistics_.retries;
    ++statistics_.ooms;
  }
  void raise_peaks(const MemoryStatistics& least);

 private:
  struct FreeBlock {
    int64_t bytes, address;
    BlockId id;
    bool operator<(const FreeBlock& other) const {
      return bytes != other.bytes ? bytes > other.bytes : address > other.address;
    }
  };
  // The best fit is the last that holds a request.  Small blocks come and go most, so they stand at the end.
  using FreeList = std::vector<FreeBlock>;

  struct Segment {
    int64_t address, bytes;
    BlockId first;  // as long as it is there
  };

  Block& at(BlockId id) { return blocks_[static_cast<size_t>(id)]; }
  FreeBlock free_block(BlockId id) const { return {block(id).bytes, block(id).address, id}; }
  FreeList& list_of(const FreeBlock& free);

  BlockId best_fit(PoolId pool, int64_t bytes) const;
  BlockId take_segment(PoolId pool, int64_t bytes);
  void hand_out(BlockId id, int64_t bytes, int64_t requested, OwnerId owner);
  BlockId new_block(const Block& block);
  BlockId split(BlockId id, int64_t bytes);
  void merge(BlockId id, BlockId next);
  void insert(const FreeBlock& free);
  void remove(const FreeBlock& free);
  void replace(const FreeBlock& old, const FreeBlock& now);
  void add(const Block& block, Statistic PoolStatistics::*statistic, int64_t change);

  const int64_t limit_;
  std::optional<PoolId> pinned_;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;    // of blocks_
  std::vector<FreeList> free_;     // by pool, small blocks before large ones
  std::vector<Segment> segments_;  // by address
  MemoryStatistics statistics_;
};

// What a request takes of a free block, and of the device where there is none.
int64_t block_bytes(int64_t bytes);
int64_t segment_bytes(int64_t bytes);

}  // namespace runner::backends::gpu
