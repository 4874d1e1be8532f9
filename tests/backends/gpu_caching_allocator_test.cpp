// The caching allocator of an emulated GPU: each of PyTorch's rules by hand, and random requests against a slow model.
#include <random>

#include <gtest/gtest.h>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/torch_size_text.h"
#include "schema/base/error.h"
#include "tests/backends/support/gpu_memory.h"
#include "tests/backends/support/slow_allocator.h"
#include "tests/support/allocations.h"

namespace runner::backends::gpu::testing {
namespace {

constexpr int64_t kK = 1024, kM = kK * kK, kG = kK * kM;

// Allocations by address; pool 0 and owner 0 by default.
class CachedMemory {
 public:
  explicit CachedMemory(int64_t limit = kG) : allocator(limit) {}

  // Returns the address, or −1 if the request is refused.
  int64_t take(int64_t bytes, PoolId pool = 0, OwnerId owner = 0) {
    const BlockId id = allocator.allocate(bytes, pool, owner);
    if (id == kNoBlock) return -1;
    at_[allocator.block(id).address] = id;
    return allocator.block(id).address;
  }
  void give(int64_t address) {
    allocator.free(at_.at(address));
    at_.erase(address);
  }
  int64_t bytes_at(int64_t address) const { return allocator.block(at_.at(address)).bytes; }
  const PoolStatistics& all() const { return allocator.statistics().all; }
  int64_t reserved() const { return all().reserved_bytes.current; }

  CachingAllocator allocator;

 private:
  std::map<int64_t, BlockId> at_;
};

TEST(GpuCachingAllocator, RoundsUpTo512Bytes) {
  CachedMemory memory;
  EXPECT_EQ(memory.take(1), 0);
  EXPECT_EQ(memory.take(512), 512);
  EXPECT_EQ(memory.take(513), 1024);
  EXPECT_EQ(memory.take(1), 2048);
  EXPECT_EQ(memory.all().requested_bytes.current, 1 + 512 + 513 + 1);
  EXPECT_EQ(memory.all().allocated_bytes.current, 512 + 512 + 1024 + 512);
  EXPECT_EQ(memory.all().blocks.current, 4);
}

TEST(GpuCachingAllocator, SmallRequestsShareSegmentsOf2MiB) {
  CachedMemory memory;
  EXPECT_EQ(memory.take(kM), 0);
  EXPECT_EQ(memory.take(kM - 512), kM);
  // The rest is a block of minimum size.
  EXPECT_EQ(memory.all().split_bytes.current, 512);
  EXPECT_EQ(memory.take(513), 2 * kM);
  EXPECT_EQ(memory.take(512), 2 * kM - 512);
  EXPECT_EQ(memory.all().segments.current, 2);
  EXPECT_EQ(memory.reserved(), 4 * kM);
  EXPECT_EQ(memory.allocator.statistics().large.segments.total, 0);
}

TEST(GpuCachingAllocator, MediumRequestsShareSegmentsOf20MiB) {
  CachedMemory memory;
  EXPECT_EQ(memory.take(kM + 1), 0);
  EXPECT_EQ(memory.bytes_at(0), kM + 512);
  EXPECT_EQ(memory.take(10 * kM - 512), kM + 512);
  EXPECT_EQ(memory.reserved(), 20 * kM);
  // The remaining 9 MiB are too small for the next request, which gets a segment of its own.
  EXPECT_EQ(memory.all().split_bytes.current, 9 * kM);
  EXPECT_EQ(memory.take(10 * kM), 20 * kM);
  EXPECT_EQ(memory.reserved(), 30 * kM);
}

TEST(GpuCachingAllocator, LargeRequestsHaveSegmentsInStepsOf2MiB) {
  CachedMemory memory;
  EXPECT_EQ(memory.take(10 * kM + 1), 0);
  EXPECT_EQ(memory.reserved(), 12 * kM);
  EXPECT_EQ(memory.bytes_at(0), 10 * kM + 512);  // the remaining 2 MiB − 512 bytes become a block
  EXPECT_EQ(memory.all().split_bytes.current, 2 * kM - 512);
  EXPECT_EQ(memory.take(100 * kM), 12 * kM);
  EXPECT_EQ(memory.reserved(), 112 * kM);
}

TEST(GpuCachingAllocator, LargeRemaindersUpToAMiBStayInTheirBlock) {
  CachedMemory memory;
  EXPECT_EQ(memory.take(11 * kM), 0);  // 1 MiB remains
  EXPECT_EQ(memory.bytes_at(0), 12 * kM);
  EXPECT_EQ(memory.all().allocated_bytes.current, 12 * kM);
  EXPECT_EQ(memory.all().requested_bytes.current, 11 * kM);
  EXPECT_EQ(memory.all().split_blocks.current, 0);
  memory.give(0);
  EXPECT_EQ(memory.take(11 * kM - 512), 0);  // 1 MiB + 512 bytes remain
  EXPECT_EQ(memory.bytes_at(0), 11 * kM - 512);
  EXPECT_EQ(memory.all().split_bytes.current, kM + 512);
}

TEST(GpuCachingAllocator, UsesTheSmallestBlockThatFits) {
  CachedMemory memory;
  const int64_t a = memory.take(4 * kM), b = memory.take(2 * kM), c = memory.take(3 * kM), d = memory.take(2 * kM);
  EXPECT_EQ(d, 9 * kM);  // followed by 9 free MiB
  memory.give(a);
  memory.give(c);
  EXPECT_EQ(memory.take(2 * kM + 1), c);
  EXPECT_EQ(memory.bytes_at(c), 3 * kM);  // less than 1 MiB would remain
  EXPECT_EQ(memory.take(2 * kM + 1), a);
  EXPECT_EQ(memory.bytes_at(a), 2 * kM + 512);
  EXPECT_EQ(memory.take(4 * kM), 11 * kM);
  EXPECT_EQ(b, 4 * kM);
}

TEST(GpuCachingAllocator, UsesTheLowestOfEqualBlocks) {
  CachedMemory memory;
  std::vector<int64_t> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(memory.take(2 * kM));
  for (const int i : {4, 0, 2}) memory.give(blocks[static_cast<size_t>(i)]);
  EXPECT_EQ(memory.take(2 * kM), blocks[0]);
  EXPECT_EQ(memory.take(2 * kM), blocks[2]);
  EXPECT_EQ(memory.take(2 * kM), blocks[4]);
}

TEST(GpuCachingAllocator, FreedBlocksMergeWithNeighbours) {
  CachedMemory memory;
  const int64_t a = memory.take(2 * kM), b = memory.take(2 * kM), c = memory.take(2 * kM), d = memory.take(2 * kM);
  memory.give(a);
  EXPECT_EQ(memory.all().split_blocks.current, 2);
  EXPECT_EQ(memory.all().split_bytes.current, 2 * kM + 12 * kM);
  memory.give(c);
  EXPECT_EQ(memory.all().split_blocks.current, 3);
  memory.give(b);  // between two free blocks
  EXPECT_EQ(memory.all().split_blocks.current, 2);
  EXPECT_EQ(memory.all().split_bytes.current, 6 * kM + 12 * kM);
  EXPECT_EQ(memory.take(6 * kM), a);
  memory.give(a);
  memory.give(d);  // the whole segment is free, which is not fragmentation
  EXPECT_EQ(memory.all().split_blocks.current, 0);
  EXPECT_EQ(memory.all().split_bytes.current, 0);
  EXPECT_EQ(memory.reserved(), 20 * kM);
  EXPECT_EQ(memory.allocator.largest_free(kM + 1, 0), 20 * kM);
  EXPECT_EQ(memory.allocator.largest_free(kM, 0), 0);
}

TEST(GpuCachingAllocator, SegmentsNeverMerge) {
  CachedMemory memory;
  const int64_t a = memory.take(10 * kM), b = memory.take(10 * kM);
  memory.give(a);
  memory.give(b);
  EXPECT_EQ(memory.take(20 * kM), 20 * kM);
}

TEST(GpuCachingAllocator, BlocksAreReusedOnlyOnTheirStream) {
  CachedMemory memory;
  memory.give(memory.take(kM, 0));
  EXPECT_EQ(memory.take(kM, 1), 2 * kM);
  EXPECT_EQ(memory.take(kM, 0), 0);
  EXPECT_EQ(memory.all().segments.current, 2);
}

TEST(GpuCachingAllocator, SmallRequestsDoNotTakeLargeBlocks) {
  CachedMemory memory;
  memory.give(memory.take(3 * kM));
  EXPECT_EQ(memory.take(kM), 20 * kM);
}

TEST(GpuCachingAllocator, EmptyCacheReleasesWholeSegments) {
  CachedMemory memory;
  const int64_t a = memory.take(3 * kM), b = memory.take(18 * kM), c = memory.take(512), d = memory.take(512, 1);
  memory.give(b);
  memory.give(d);
  memory.allocator.empty_cache();
  EXPECT_EQ(memory.all().segments.current, 2);
  EXPECT_EQ(memory.all().segments.total - memory.all().segments.current, 2);
  EXPECT_EQ(memory.reserved(), 22 * kM);
  EXPECT_EQ(memory.take(17 * kM + 512), 20 * kM) << "in the place of b";
  memory.give(a);
  memory.give(c);
  memory.give(20 * kM);
  memory.allocator.empty_cache();
  EXPECT_EQ(memory.reserved(), 0);
  EXPECT_EQ(memory.all().segments.current, 0);
  EXPECT_EQ(memory.all().segments.peak, 4);
}

TEST(GpuCachingAllocator, ReleasesCachedSegmentsBeforeItFails) {
  CachedMemory memory(40 * kM);
  memory.give(memory.take(20 * kM));
  memory.give(memory.take(kM, 1));
  EXPECT_EQ(memory.reserved(), 22 * kM);
  EXPECT_EQ(memory.take(30 * kM), 0);  // both segments were released, whatever their pool and size
  EXPECT_EQ(memory.reserved(), 30 * kM);
  EXPECT_EQ(memory.allocator.statistics().retries, 1);
  EXPECT_EQ(memory.allocator.statistics().ooms, 0);
  EXPECT_EQ(memory.take(5 * kM), -1);  // needs a segment of 20 MiB
  EXPECT_EQ(memory.take(10 * kM), 30 * kM);
  EXPECT_EQ(memory.take(1), -1);
  EXPECT_EQ(memory.take(int64_t{1} << 62), -1);
  EXPECT_EQ(memory.allocator.statistics().retries, 4);
  EXPECT_EQ(memory.allocator.statistics().ooms, 3);
}

TEST(GpuCachingAllocator, ResetsPeaks) {
  CachedMemory memory;
  const int64_t a = memory.take(4 * kM);
  memory.give(memory.take(3 * kM));
  EXPECT_EQ(memory.all().allocated_bytes.peak, 7 * kM);
  memory.allocator.reset_peaks();
  EXPECT_EQ(memory.all().allocated_bytes.peak, 4 * kM);
  EXPECT_EQ(memory.all().reserved_bytes.peak, 20 * kM);
  EXPECT_EQ(memory.all().blocks.total, 2);
  memory.give(a);
  EXPECT_EQ(memory.all().allocated_bytes.total, 7 * kM);
  EXPECT_EQ(memory.all().allocated_bytes.total - memory.all().allocated_bytes.current, 7 * kM);
}

TEST(GpuCachingAllocator, ReportsUseByOwner) {
  CachedMemory memory;
  memory.take(3 * kM, 0, 7);
  memory.take(512, 0, 5);
  memory.take(2 * kM, 1, 7);
  memory.take(512, 0, 3);
  const int64_t gone = memory.take(kM, 0, 9);
  memory.give(gone);
  std::vector<std::array<int64_t, 3>> uses;
  for (const OwnerUse& use : memory.allocator.uses()) uses.push_back({use.owner, use.bytes, use.blocks});
  EXPECT_EQ(uses, (std::vector<std::array<int64_t, 3>>{{7, 5 * kM, 2}, {3, 512, 1}, {5, 512, 1}}));
}

TEST(GpuCachingAllocator, RefusesALimitBelowOneSegment) {
  EXPECT_NO_THROW(CachingAllocator(2 * kM));
  try {
    const CachingAllocator allocator(2 * kM - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_EQ(error.message(),
              "gpu.memory: 2097151 bytes are less than one segment of 2.00 MiB bytes, the smallest allocation from the "
              "device; increase gpu.memory");
  }
}

TEST(GpuCachingAllocator, PrintsSizesLikePyTorch) {
  const std::pair<int64_t, const char*> sizes[] = {
      {0, "0 bytes"},   {1023, "1023 bytes"},   {1024, "1.00 KiB"}, {1536, "1.50 KiB"},
      {kM, "1.00 MiB"}, {20 * kM, "20.00 MiB"}, {kG, "1.00 GiB"},   {1536 * kG, "1536.00 GiB"}};
  for (const auto& [bytes, text] : sizes) EXPECT_EQ(torch_size_text(bytes), text);
}

// Sizes at and around every limit in the rules, and any in between.
int64_t random_bytes(std::mt19937& random) {
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random()) % most; };
  switch (random() % 6) {
    case 0: return up_to(2000);
    case 1: return up_to(kM);
    case 2: return up_to(12 * kM);
    case 3: return up_to(40 * kM);
    default: break;
  }
  const int64_t bounds[] = {512, kM, 2 * kM, 10 * kM, 12 * kM, 20 * kM};
  return bounds[random() % std::size(bounds)] + (static_cast<int64_t>(random() % 3) - 1) * 512 +
         static_cast<int64_t>(random() % 2);
}

class GpuRandomRequests : public ::testing::TestWithParam<uint32_t> {};

TEST_P(GpuRandomRequests, MatchTheSlowModel) {
  std::mt19937 random(GetParam());
  const int64_t limit = (20 + static_cast<int64_t>(random() % 300)) * kM + static_cast<int64_t>(random() % 1000);
  CachingAllocator fast(limit);
  SlowAllocator slow(limit);
  std::vector<BlockId> live;
  std::vector<Extent> layout;
  const auto free_one = [&](size_t which) {
    slow.free(fast.block(live[which]).address);
    fast.free(live[which]);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
  };
  int64_t most_live = 0;
  for (int i = 0; i < 4000; ++i) {
    // Alternates between filling and draining.
    const bool fills = random() % 100 < (i / 500 % 2 == 0 ? 70U : 35U);
    if (random() % 500 == 0) {
      fast.empty_cache();
      slow.empty_cache();
    } else if (fills || live.empty()) {
      const int64_t bytes = std::max<int64_t>(random_bytes(random), 1);
      const auto pool = static_cast<PoolId>(random() % 3);
      const BlockId id = fast.allocate(bytes, pool, 0);
      const auto expected = slow.allocate(bytes, pool);
      ASSERT_EQ(id != kNoBlock, expected.has_value()) << "request " << i << ", " << bytes << " bytes";
      if (expected) {
        const Block& block = fast.block(id);
        ASSERT_EQ((std::pair{block.address, block.bytes}), (std::pair{expected->address, expected->bytes}));
        ASSERT_EQ(block.pool, pool);
        live.push_back(id);
      }
    } else {
      free_one(random() % live.size());
    }
    ASSERT_TRUE(slow.is_sound());
    ASSERT_EQ(figures_of(fast.statistics()), figures_of(slow.statistics())) << "request " << i;
    fast.copy_layout(layout);
    ASSERT_TRUE(fast.has_layout(layout));
    most_live = std::max(most_live, static_cast<int64_t>(live.size()));
  }
  EXPECT_GT(most_live, 10);
  EXPECT_GT(fast.statistics().ooms, 0);
  while (!live.empty()) free_one(random() % live.size());
  EXPECT_EQ(fast.statistics().all.split_blocks.current, 0);
  fast.copy_layout(layout);
  EXPECT_EQ(static_cast<int64_t>(layout.size()), fast.statistics().all.segments.current);
  fast.empty_cache();
  EXPECT_EQ(fast.statistics().all.reserved_bytes.current, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuRandomRequests, ::testing::Range(0U, 8U));

// Layouts that differ in any one property are different.
TEST(GpuCachingAllocator, DistinguishesLayouts) {
  CachedMemory memory;
  const int64_t a = memory.take(2 * kM), b = memory.take(2 * kM);
  std::vector<Extent> layout;
  memory.allocator.copy_layout(layout);
  EXPECT_EQ(layout, (std::vector<Extent>{{.address = 0, .bytes = 2 * kM, .begins_segment = true, .allocated = true},
                                         {.address = 2 * kM, .bytes = 2 * kM, .allocated = true},
                                         {.address = 4 * kM, .bytes = 16 * kM}}));
  memory.give(b);
  EXPECT_FALSE(memory.allocator.has_layout(layout));
  EXPECT_EQ(memory.take(3 * kM), b);
  EXPECT_FALSE(memory.allocator.has_layout(layout));
  memory.give(b);
  memory.give(a);
  EXPECT_FALSE(memory.allocator.has_layout(layout));
  memory.take(2 * kM);
  memory.take(2 * kM);
  EXPECT_TRUE(memory.allocator.has_layout(layout));
  CachedMemory in_another_pool;
  for (int i = 0; i < 2; ++i) in_another_pool.take(2 * kM, 1);
  EXPECT_FALSE(in_another_pool.allocator.has_layout(layout));
}

TEST(GpuCachingAllocator, PlacesBlocksInsideFreeBlocks) {
  CachedMemory memory;
  memory.give(memory.take(3 * kM));
  std::vector<Extent> empty, placed;
  memory.allocator.copy_layout(empty);
  const BlockId id = memory.allocator.place(5 * kM, 2 * kM, 2 * kM - 1, 4);
  EXPECT_EQ(memory.allocator.block(id).owner, 4U);
  memory.allocator.copy_layout(placed);
  EXPECT_EQ(placed, (std::vector<Extent>{{.address = 0, .bytes = 5 * kM, .begins_segment = true},
                                         {.address = 5 * kM, .bytes = 2 * kM, .allocated = true},
                                         {.address = 7 * kM, .bytes = 13 * kM}}));
  EXPECT_EQ(memory.all().blocks.total, 1) << "place() counts no allocation";
  EXPECT_EQ(memory.take(6 * kM), 7 * kM);
  EXPECT_EQ(memory.take(4 * kM), 0);
}

// Whichever blocks a steady-state loop needs, their host memory has already been allocated.
TEST(GpuCachingAllocator, AllocatesNoHostMemoryInSteadyState) {
  CachingAllocator allocator(kG);
  std::vector<BlockId> live(64, kNoBlock);
  const auto round = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (BlockId& id : live) id = allocator.allocate(1 + random() % (4 * kM), 0, 0);
    for (BlockId& id : live) allocator.free(id);
  };
  for (uint32_t seed = 0; seed < 4; ++seed) round(seed);
  const int64_t before = support::allocations_of_this_thread();
  for (int i = 0; i < 10; ++i)
    for (uint32_t seed = 0; seed < 4; ++seed) round(seed);
  EXPECT_EQ(support::allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace runner::backends::gpu::testing
