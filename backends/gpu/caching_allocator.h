// Allocator of an emulated GPU: PyTorch's caching allocator over virtual addresses. It touches no memory.
//
// The rules are those of c10/cuda/CUDACachingAllocator.cpp (PyTorch, commit 001074d2) with default settings:
// 1. A request is rounded up to 512 bytes. Requests of up to 1 MiB are small, others large; each pool keeps small and
//    large blocks separate.
// 2. A request gets the smallest free block of its pool and size class that fits; among equal ones the lowest address.
// 3. The rest of the block becomes a free block if it has at least 512 bytes (small) or more than 1 MiB (large).
//    Otherwise it stays part of the allocated block.
// 4. If no block fits, a segment is allocated from the device: 2 MiB for small requests, 20 MiB for requests under
//    10 MiB, else the request rounded up to 2 MiB.
// 5. If the device has too little memory left, all completely free segments are released and the request is retried.
// 6. A freed block merges with free neighbours. Its segment is kept.
// 7. Segments of a pinned pool are never released: captured graphs contain their addresses.
// A segment gets the lowest address at which it fits; on a real device the driver chooses.
//
// Invariants: the blocks of a segment are contiguous and fill it, and no two neighbours are both free. Allocating and
// freeing do not allocate host memory once the number of blocks has reached its maximum. Thread safety: one thread at a
// time, the host's, which allocates when it launches.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/gpu/memory_statistics.h"
#include "backends/tensor/byte_units.h"
#include "schema/base/source_mark.h"

namespace runner::backends::gpu {

inline constexpr int64_t kMinBlock = 512;
inline constexpr int64_t kLargestSmall = kMiB;      // of a request
inline constexpr int64_t kSmallSegment = 2 * kMiB;  // smallest allocation from the device
inline constexpr int64_t kMediumSegment = 20 * kMiB;
inline constexpr int64_t kMinWholeSegment = 10 * kMiB;  // smallest request with a segment of its own size
inline constexpr int64_t kSegmentStep = 2 * kMiB;

using PoolId = int32_t;    // pool of a stream, or of captured graphs; pools share no memory
using OwnerId = uint32_t;  // identifies who uses a block; assigned by the caller
using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

struct Block {
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t requested = 0;  // size of the request, if allocated
  OwnerId owner = 0;      // owner, if allocated
  PoolId pool = 0;
  bool is_small = false;
  BlockId previous = kNoBlock, next = kNoBlock;  // neighbours in the segment
  bool allocated = false;

  bool is_split() const { return previous != kNoBlock || next != kNoBlock; }
};

// The part of a block's state that determines where later requests go; used to compare allocator states.
struct Extent {
  int64_t address = 0, bytes = 0;
  PoolId pool = 0;
  bool is_small = false, begins_segment = false, allocated = false;
  bool operator==(const Extent&) const = default;
};

// Total of an owner's blocks.
struct OwnerUse {
  OwnerId owner = 0;
  int64_t bytes = 0, blocks = 0;
};

class CachingAllocator {
 public:
  // `limit`: memory of the device in bytes. Throws Error(kRecipe) if it is less than one segment.
  explicit CachingAllocator(int64_t limit);

  // `bytes`: 1 to 2^62. Returns kNoBlock if the device has too little memory; then blocks are unchanged, but free
  // segments have been released.
  BlockId allocate(int64_t bytes, PoolId pool, OwnerId owner);
  // Returns a block to its pool. If another stream uses it, free it when that stream has passed the last use.
  void free(BlockId id);
  // Releases completely free segments to the device.
  void empty_cache();
  void pin(PoolId pool) { pinned_ = pool; }
  int64_t pinned_bytes() const;  // of segments that are never released

  void set_owner(BlockId id, OwnerId owner) { blocks_[static_cast<size_t>(id)].owner = owner; }

  int64_t limit() const { return limit_; }
  const Block& block(BlockId id) const { return blocks_[static_cast<size_t>(id)]; }
  // Size of the largest free block in the list that serves such a request; 0 if there is none.
  int64_t largest_free(int64_t bytes, PoolId pool) const;
  // Allocated blocks by address.
  std::vector<BlockId> allocated() const;
  // Sorted by bytes, descending, then by owner id.
  std::vector<OwnerUse> uses() const;

  const MemoryStatistics& statistics() const { return statistics_; }
  void reset_peaks();

  // For callers that replay a known sequence of requests (memory_model.h). Returns all blocks by address.
  void copy_layout(std::vector<Extent>& to) const;
  bool has_layout(std::span<const Extent> layout) const;
  // Allocates a range in the middle of a free block without counting it.
  BlockId place(int64_t address, int64_t bytes, int64_t requested, OwnerId owner);
  // Adds to the statistics. `change`: increments of currents and totals, and peaks relative to the currents before.
  void count(const MemoryStatistics& change);
  // Counts a request that is known to fail even after free segments were released.
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
  // Sorted by size, descending: the best fit is the last block that fits. Small blocks, which change most, are at the
  // end.
  using FreeList = std::vector<FreeBlock>;

  struct Segment {
    int64_t address, bytes;
    BlockId first;  // constant while the segment exists
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
  std::vector<BlockId> unused_;    // unused indices of blocks_
  std::vector<FreeList> free_;     // by pool, small blocks before large ones
  std::vector<Segment> segments_;  // by address
  MemoryStatistics statistics_;
};

// Sizes of the block and of the segment that serve a request of `bytes` bytes.
int64_t block_bytes(int64_t bytes);
int64_t segment_bytes(int64_t bytes);

// Names of owners. Blocks store the OwnerId; the table stores each name once. Thread safety: one thread at a time.
struct MemoryOwner {
  std::string name;  // "weights", "matmul"
  SourceMark line;

  // Example: "matmul (hook.lua:12)".
  std::string to_string() const;
};

class OwnerTable {
 public:
  // Returns the same id for the same name and line.
  OwnerId intern(std::string_view name, const SourceMark& line = {});
  const MemoryOwner& at(OwnerId id) const { return owners_[id]; }

 private:
  using Key = std::tuple<std::string, std::string, int, int>;
  std::map<Key, OwnerId> numbers_;
  std::vector<MemoryOwner> owners_;
};

}  // namespace runner::backends::gpu
