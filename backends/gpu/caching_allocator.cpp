#include "backends/gpu/caching_allocator.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "backends/gpu/torch_size_text.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

bool is_small_request(int64_t bytes) {
  return bytes <= kLargestSmall;
}

size_t list_number(PoolId pool, bool small) {
  return 2 * static_cast<size_t>(pool) + (small ? 0 : 1);
}

bool leaves_block(const Block& block, int64_t rest) {
  return block.is_small ? rest >= kMinBlock : rest > kLargestSmall;
}

Extent extent_of(const Block& block) {
  return {block.address, block.bytes, block.pool, block.is_small, block.previous == kNoBlock, block.allocated};
}

}  // namespace

int64_t block_bytes(int64_t bytes) {
  return round_up(bytes, kMinBlock);
}

int64_t segment_bytes(int64_t bytes) {
  if (is_small_request(bytes)) return kSmallSegment;
  return bytes < kMinWholeSegment ? kMediumSegment : round_up(bytes, kSegmentStep);
}

CachingAllocator::CachingAllocator(int64_t limit) : limit_(limit) {
  RUN_CHECK(limit >= kSmallSegment, ErrorKind::kRecipe,
            "gpu.memory: {} bytes are less than one segment of {} bytes, the smallest allocation from the device; "
            "increase gpu.memory",
            limit, torch_size_text(kSmallSegment));
}

BlockId CachingAllocator::allocate(int64_t requested, PoolId pool, OwnerId owner) {
  RUN_ASSERT(requested > 0 && pool >= 0);
  const int64_t bytes = block_bytes(std::min(requested, limit_ + 1));  // larger requests fail too
  const size_t list = list_number(pool, is_small_request(bytes));
  if (list >= free_.size()) free_.resize(list + 1);
  BlockId id = best_fit(pool, bytes);
  if (id == kNoBlock) id = take_segment(pool, bytes);
  if (id == kNoBlock) {
    ++statistics_.retries;
    empty_cache();
    id = take_segment(pool, bytes);
  }
  if (id == kNoBlock) {
    ++statistics_.ooms;
    return kNoBlock;
  }
  hand_out(id, bytes, requested, owner);
  return id;
}

BlockId CachingAllocator::best_fit(PoolId pool, int64_t bytes) const {
  const FreeList& free = free_[list_number(pool, is_small_request(bytes))];
  const auto too_small =
      std::partition_point(free.begin(), free.end(), [&](const FreeBlock& block) { return block.bytes >= bytes; });
  return too_small == free.begin() ? kNoBlock : std::prev(too_small)->id;
}

// Allocates a segment and returns it as a free block.
BlockId CachingAllocator::take_segment(PoolId pool, int64_t bytes) {
  const int64_t size = segment_bytes(bytes);
  if (size > limit_ - statistics_.all.reserved_bytes.current) return kNoBlock;
  int64_t address = 0;
  auto next = segments_.begin();
  for (; next != segments_.end() && next->address - address < size; ++next) address = next->address + next->bytes;
  const BlockId id = new_block({.address = address, .bytes = size, .pool = pool, .is_small = is_small_request(bytes)});
  segments_.insert(next, {address, size, id});
  insert(free_block(id));
  add(at(id), &PoolStatistics::segments, 1);
  add(at(id), &PoolStatistics::reserved_bytes, size);
  return id;
}

void CachingAllocator::hand_out(BlockId id, int64_t bytes, int64_t requested, OwnerId owner) {
  int64_t split_blocks = 0, split_bytes = 0;
  if (at(id).is_split()) {
    --split_blocks;
    split_bytes -= at(id).bytes;
  }
  const int64_t rest = at(id).bytes - bytes;
  const FreeBlock whole = free_block(id);
  if (leaves_block(at(id), rest)) {
    replace(whole, free_block(split(id, bytes)));
    ++split_blocks;
    split_bytes += rest;
  } else {
    remove(whole);
  }
  Block& block = at(id);
  block.allocated = true;
  block.requested = requested;
  block.owner = owner;
  add(block, &PoolStatistics::blocks, 1);
  add(block, &PoolStatistics::allocated_bytes, block.bytes);
  add(block, &PoolStatistics::requested_bytes, requested);
  add(block, &PoolStatistics::split_blocks, split_blocks);
  add(block, &PoolStatistics::split_bytes, split_bytes);
}

void CachingAllocator::free(BlockId id) {
  RUN_ASSERT(at(id).allocated);
  at(id).allocated = false;
  add(at(id), &PoolStatistics::blocks, -1);
  add(at(id), &PoolStatistics::allocated_bytes, -at(id).bytes);
  add(at(id), &PoolStatistics::requested_bytes, -at(id).requested);
  int64_t split_blocks = 0, split_bytes = 0;
  const auto is_free = [&](BlockId neighbour) { return neighbour != kNoBlock && !at(neighbour).allocated; };
  std::optional<FreeBlock> absorbed;
  if (is_free(at(id).next)) {
    absorbed = free_block(at(id).next);
    --split_blocks;
    split_bytes -= absorbed->bytes;
    merge(id, absorbed->id);
  }
  if (is_free(at(id).previous)) {
    if (absorbed) remove(*absorbed);
    absorbed = free_block(at(id).previous);
    --split_blocks;
    split_bytes -= absorbed->bytes;
    id = absorbed->id;
    merge(id, at(id).next);
  }
  absorbed ? replace(*absorbed, free_block(id)) : insert(free_block(id));
  if (at(id).is_split()) {
    ++split_blocks;
    split_bytes += at(id).bytes;
  }
  add(at(id), &PoolStatistics::split_blocks, split_blocks);
  add(at(id), &PoolStatistics::split_bytes, split_bytes);
}

void CachingAllocator::empty_cache() {
  std::erase_if(segments_, [this](const Segment& segment) {
    const Block& block = at(segment.first);
    if (block.allocated || block.is_split() || block.pool == pinned_) return false;
    remove(free_block(segment.first));
    add(block, &PoolStatistics::segments, -1);
    add(block, &PoolStatistics::reserved_bytes, -segment.bytes);
    unused_.push_back(segment.first);
    return true;
  });
}

int64_t CachingAllocator::pinned_bytes() const {
  int64_t bytes = 0;
  for (const Segment& segment : segments_)
    if (block(segment.first).pool == pinned_) bytes += segment.bytes;
  return bytes;
}

BlockId CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  at(id) = block;
  return id;
}

// Splits off everything after the first `bytes` bytes as a block of its own.
BlockId CachingAllocator::split(BlockId id, int64_t bytes) {
  const Block whole = at(id);
  const BlockId rest = new_block({.address = whole.address + bytes,
                                  .bytes = whole.bytes - bytes,
                                  .pool = whole.pool,
                                  .is_small = whole.is_small,
                                  .previous = id,
                                  .next = whole.next});
  if (whole.next != kNoBlock) at(whole.next).previous = rest;
  at(id).next = rest;
  at(id).bytes = bytes;
  return rest;
}

// Merges the following block into `id`.
void CachingAllocator::merge(BlockId id, BlockId next) {
  at(id).bytes += at(next).bytes;
  at(id).next = at(next).next;
  if (at(id).next != kNoBlock) at(at(id).next).previous = id;
  unused_.push_back(next);
}

CachingAllocator::FreeList& CachingAllocator::list_of(const FreeBlock& free) {
  return free_[list_number(block(free.id).pool, block(free.id).is_small)];
}

void CachingAllocator::insert(const FreeBlock& free) {
  FreeList& list = list_of(free);
  list.insert(std::lower_bound(list.begin(), list.end(), free), free);
}

void CachingAllocator::remove(const FreeBlock& free) {
  FreeList& list = list_of(free);
  list.erase(std::lower_bound(list.begin(), list.end(), free));
}

// Moves only the entries between the two positions.
void CachingAllocator::replace(const FreeBlock& old, const FreeBlock& now) {
  FreeList& list = list_of(old);
  const auto from = std::lower_bound(list.begin(), list.end(), old);
  if (now < old) {
    const auto to = std::lower_bound(list.begin(), from, now);
    std::move_backward(to, from, from + 1);
    *to = now;
  } else {
    const auto to = std::lower_bound(from + 1, list.end(), now) - 1;
    std::move(from + 1, to + 1, from);
    *to = now;
  }
}

void CachingAllocator::add(const Block& block, Statistic PoolStatistics::*statistic, int64_t change) {
  PoolStatistics& pool = block.is_small ? statistics_.small : statistics_.large;
  (statistics_.all.*statistic).add(change);
  (pool.*statistic).add(change);
}

int64_t CachingAllocator::largest_free(int64_t bytes, PoolId pool) const {
  const size_t list = list_number(pool, is_small_request(bytes));
  return list >= free_.size() || free_[list].empty() ? 0 : free_[list].front().bytes;
}

std::vector<BlockId> CachingAllocator::allocated() const {
  std::vector<BlockId> ids;
  for (const Segment& segment : segments_)
    for (BlockId id = segment.first; id != kNoBlock; id = block(id).next)
      if (block(id).allocated) ids.push_back(id);
  return ids;
}

std::vector<OwnerUse> CachingAllocator::uses() const {
  std::map<OwnerId, OwnerUse> by_owner;
  for (const BlockId id : allocated()) {
    OwnerUse& use = by_owner[block(id).owner];
    use = {block(id).owner, use.bytes + block(id).bytes, use.blocks + 1};
  }
  std::vector<OwnerUse> uses;
  for (const auto& [owner, use] : by_owner) uses.push_back(use);
  std::ranges::stable_sort(uses, std::greater(), &OwnerUse::bytes);
  return uses;
}

void CachingAllocator::reset_peaks() {
  for_each_statistic(statistics_, statistics_, [](Statistic& ours, const Statistic&) { ours.peak = ours.current; });
}

void CachingAllocator::raise_peaks(const MemoryStatistics& least) {
  for_each_statistic(statistics_, least,
                     [](Statistic& ours, const Statistic& other) { ours.peak = std::max(ours.peak, other.peak); });
}

void CachingAllocator::copy_layout(std::vector<Extent>& to) const {
  to.clear();
  for (const Segment& segment : segments_)
    for (BlockId id = segment.first; id != kNoBlock; id = block(id).next) to.push_back(extent_of(block(id)));
}

bool CachingAllocator::has_layout(std::span<const Extent> layout) const {
  if (layout.size() != blocks_.size() - unused_.size()) return false;
  auto extent = layout.begin();
  for (const Segment& segment : segments_)
    for (BlockId id = segment.first; id != kNoBlock; id = block(id).next)
      if (extent_of(block(id)) != *extent++) return false;
  return true;
}

BlockId CachingAllocator::place(int64_t address, int64_t bytes, int64_t requested, OwnerId owner) {
  const auto starts_after = [](int64_t place, const Segment& segment) { return place < segment.address; };
  BlockId id = std::prev(std::upper_bound(segments_.begin(), segments_.end(), address, starts_after))->first;
  while (at(id).address + at(id).bytes <= address) id = at(id).next;
  RUN_ASSERT(!at(id).allocated && address + bytes <= at(id).address + at(id).bytes);
  remove(free_block(id));
  if (const int64_t before = address - at(id).address; before > 0) {
    const BlockId next = split(id, before);
    insert(free_block(id));
    id = next;
  }
  if (at(id).bytes > bytes) insert(free_block(split(id, bytes)));
  at(id).allocated = true;
  at(id).requested = requested;
  at(id).owner = owner;
  return id;
}

void CachingAllocator::count(const MemoryStatistics& change) {
  for_each_statistic(statistics_, change, [](Statistic& ours, const Statistic& more) {
    ours.peak = std::max(ours.peak, ours.current + more.peak);
    ours.current += more.current;
    ours.total += more.total;
  });
}

std::string MemoryOwner::to_string() const {
  return line.known() ? fmt::format("{} ({})", name, line.to_string()) : name;
}

OwnerId OwnerTable::intern(std::string_view name, const SourceMark& line) {
  const auto next = static_cast<OwnerId>(owners_.size());
  const auto [entry, is_new] = numbers_.try_emplace({std::string(name), line.file, line.line, line.column}, next);
  if (is_new) owners_.push_back({std::string(name), line});
  return entry->second;
}

}  // namespace runner::backends::gpu
