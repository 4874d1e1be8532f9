#include "backends/dist/shared_memory_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backends/dist/barrier.h"
#include "backends/dist/call_record.h"
#include "backends/dist/collective_span.h"
#include "backends/dist/fold.h"
#include "backends/dist/rank_error.h"
#include "backends/runtime/affinity.h"
#include "backends/tensor/rounding.h"
#include "schema/base/duration.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

constexpr size_t kLine = 64;  // bytes of a cache line
constexpr size_t kSlot = kLine;
// Bytes that each rank passes at a time. The pieces of many ranks are smaller, so that they still fit into the caches.
constexpr size_t kLargestPiece = size_t{256} << 10, kSmallestPiece = size_t{16} << 10, kAllPieces = size_t{8} << 20;
// Up to this size and number of ranks, a second barrier costs more than folding everything.
constexpr size_t kSmall = size_t{16} << 10;
constexpr int kFewRanks = 32;

void copy_bytes(std::byte* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);  // without bytes, the pointer may be null
}

size_t whole_pages(size_t bytes) {
  return round_up(bytes, SharedMemory::page_bytes());
}

std::string on_host(const std::string& host) {
  return host.empty() ? "" : " on host " + host;
}

size_t piece_bytes(int size) {
  return std::clamp(kAllPieces / static_cast<size_t>(size) / kLine * kLine, kSmallestPiece, kLargestPiece);
}

}  // namespace

// Reason of a rank's failure; both strings may be truncated. Each rank has its own. It is valid once it is complete, so
// a process that dies while writing it does not prevent others from failing.
struct SharedMemoryGroup::Reason {
  bool is_loss;  // of a process or a host
  int32_t line;
  char file[256];
  char text[2048];

  void set(std::string_view reason, const SourceMark& where, bool of_loss) {
    is_loss = of_loss;
    set_fixed_text(text, reason);
    set_fixed_text(file, where.file);
    line = where.line;
  }
  [[noreturn]] void raise() const { throw RankError(ErrorKind::kRun, text, {file, line, 0}); }
};

// Written by one rank and read by all; followed by its two stages. Records, stages and slots alternate: before one is
// written again, a barrier has separated it from its readers.
struct alignas(64) SharedMemoryGroup::RankArea {
  std::atomic<uint64_t> calls;
  CallRecord records[2];
  Reason reason;
};

// Sums over all ranks and all calls so far. Two tallies alternate. Because ranks compare one sum instead of each
// other's records, the work of a call grows linearly with the number of ranks.
struct alignas(64) SharedMemoryGroup::Tally {
  std::atomic<uint64_t> digests;  // of the records
  std::atomic<uint64_t> flags;    // number of ranks whose flag was set
};

// Written by all ranks; followed by the folded piece, the slots, and the areas of the ranks. Values that fit into a
// slot are not staged: the slots of many ranks are on few pages, which each process maps.
struct alignas(64) SharedMemoryGroup::CommonArea {
  Barrier barrier;
  Tally tallies[2];
};

SharedMemoryGroup::Options SharedMemoryGroup::options_for(int size, std::chrono::milliseconds timeout) {
  return {.timeout = timeout, .spin = size <= usable_cores()};
}

size_t SharedMemoryGroup::area_bytes(int size) {
  return sizeof(RankArea) + 2 * piece_bytes(size);
}

size_t SharedMemoryGroup::memory_bytes(int size) {
  return sizeof(CommonArea) + piece_bytes(size) + static_cast<size_t>(size) * (2 * kSlot + area_bytes(size));
}

SharedMemoryGroup::SharedMemoryGroup(SharedMemory& memory, int rank, int size, const Options& options)
    : memory_(memory),
      rank_(rank),
      size_(size),
      piece_(piece_bytes(size)),
      options_(options),
      shared_end_(whole_pages(memory_bytes(size))),
      sources_(static_cast<size_t>(size)) {
  RUN_ASSERT(rank >= 0 && rank < size && memory.bytes().size() >= memory_bytes(size));
}

SharedMemoryGroup::CommonArea& SharedMemoryGroup::common() const {
  return *reinterpret_cast<CommonArea*>(memory_.bytes().data());
}

SharedMemoryGroup::RankArea& SharedMemoryGroup::area(int rank) const {
  std::byte* const first = slot(2, 0);
  return *reinterpret_cast<RankArea*>(first + static_cast<size_t>(rank) * area_bytes(size_));
}

std::byte* SharedMemoryGroup::slot(int side, int rank) const {
  const auto before = static_cast<size_t>(side) * static_cast<size_t>(size_) + static_cast<size_t>(rank);
  return folded() + piece_ + before * kSlot;
}

// Where a rank puts its values for the others.
std::byte* SharedMemoryGroup::stage(int rank) const {
  if (fits_slots_) return slot(side_, rank);
  return reinterpret_cast<std::byte*>(&area(rank) + 1) + (side_ == 0 ? 0 : piece_);
}

std::byte* SharedMemoryGroup::folded() const {
  return reinterpret_cast<std::byte*>(&common() + 1);
}

// ---- barrier -------------------------------------------------------------------------------------------------------

void SharedMemoryGroup::wait_for_all(std::chrono::milliseconds grace) {
  Barrier& barrier = common().barrier;
  switch (barrier.wait(size_, options_.spin ? nullptr : &backoff_, options_.timeout + grace)) {
    case Barrier::Outcome::kPassed: return;
    case Barrier::Outcome::kFailed: return throw_failure();
    case Barrier::Outcome::kTimeout: give_up(who_is_missing());
  }
}

void SharedMemoryGroup::give_up(std::string_view reason) {
  fail(reason, {});
  throw Error(ErrorKind::kRun, std::string(reason));
}

void SharedMemoryGroup::fail(std::string_view reason, const SourceMark& where) noexcept {
  set_failure(reason, where, /*is_loss=*/false);
}

void SharedMemoryGroup::set_failure(std::string_view reason, const SourceMark& where, bool is_loss) noexcept {
  const std::lock_guard lock(failing_);
  if (common().barrier.has_failed()) return;  // this rank's reason may be the one that others read
  area(rank_).reason.set(reason, where, is_loss);
  common().barrier.fail(rank_);
}

bool SharedMemoryGroup::has_failed() const {
  return common().barrier.has_failed();
}

void SharedMemoryGroup::throw_failure() const {
  if (has_failed()) area(common().barrier.failed_rank()).reason.raise();
}

bool SharedMemoryGroup::has_failed_by_loss() const {
  return has_failed() && area(common().barrier.failed_rank()).reason.is_loss;
}

CallRecord SharedMemoryGroup::newest_call(int rank) const {
  const RankArea& there = area(rank);
  return there.records[there.calls.load(std::memory_order_acquire) % 2];
}

std::string SharedMemoryGroup::name_of(int rank) const {
  return fmt::format("rank {}{}", options_.first_rank + rank, on_host(options_.host));
}

std::string SharedMemoryGroup::who_is_missing() const {
  const CallRecord mine = newest_call(rank_);
  std::vector<int> absent;
  for (int rank = 0; rank < size_; ++rank)
    if (area(rank).calls.load(std::memory_order_acquire) < calls_) absent.push_back(rank);
  const std::string limit = limit_text(options_.timeout);
  if (absent.empty()) return fmt::format("{} exceeded the limit of {} (collective_timeout)", mine.to_string(), limit);
  const std::string newest = newest_call(absent.front()).as_last_call();
  if (absent.size() == 1)
    return fmt::format("{} did not reach {} within {} (collective_timeout); it {}", name_of(absent.front()),
                       mine.to_string(), limit, newest);
  std::vector<int> ranks;
  for (const int rank : absent) ranks.push_back(options_.first_rank + rank);
  return fmt::format("ranks {}{} did not reach {} within {} (collective_timeout); rank {} {}", fmt::join(ranks, ", "),
                     on_host(options_.host), mine.to_string(), limit, ranks.front(), newest);
}

// Records the call, waits for all ranks, and throws if their calls do not match: a rank whose digest is not the mean
// of all digests knows that they differ. Returns whether the flag of any rank was set.
bool SharedMemoryGroup::call_barrier(const CallRecord& record, bool flag, std::chrono::milliseconds grace) {
  RankArea& here = area(rank_);
  const size_t at = ++calls_ % 2;
  here.records[at] = record;
  here.calls.store(calls_, std::memory_order_release);
  Tally& tally = common().tallies[at];
  const uint64_t digest = record.digest();
  tally.digests.fetch_add(digest, std::memory_order_relaxed);
  if (flag) tally.flags.fetch_add(1, std::memory_order_relaxed);
  wait_for_all(grace);
  const uint64_t digests = tally.digests.load(std::memory_order_relaxed);
  const uint64_t flags = tally.flags.load(std::memory_order_relaxed);
  if (digests - std::exchange(digests_[at], digests) != digest * static_cast<uint64_t>(size_)) throw_disagreement();
  return std::exchange(flags_[at], flags) != flags;
}

void SharedMemoryGroup::throw_disagreement() {
  std::vector<CallRecord> calls;
  for (int rank = 0; rank < size_; ++rank) calls.push_back(area(rank).records[calls_ % 2]);
  give_up(describe_disagreement(calls, options_.first_rank));
}

bool SharedMemoryGroup::any(bool mine, const Site& site) {
  const ScopedSpan span = collective_span("barrier", 0, site);
  return call_barrier(CallRecord::of(CallKind::kBarrier, {}, site), mine);
}

// ---- values --------------------------------------------------------------------------------------------------------

// Passes `bytes` bytes in pieces: stage(offset, count) writes this rank's piece, take(offset, count) reads the pieces
// of all ranks.
template <class Stage, class Take>
void SharedMemoryGroup::pass(const CallRecord& record, size_t bytes, const Stage& stage, const Take& take) {
  fits_slots_ = bytes <= kSlot;
  size_t offset = 0;
  do {
    const size_t count = std::min(piece_, bytes - offset);
    stage(offset, count);
    if (offset == 0) {
      call_barrier(record, false);
    } else {
      wait_for_all();
    }
    take(offset, count);
    side_ ^= 1;
    offset += piece_;
  } while (offset < bytes);
}

// Folds `values` of all ranks and writes the bytes from `first` on of the result to `wanted`.
void SharedMemoryGroup::fold_all(const CallRecord& record, std::span<const std::byte> values, size_t first,
                                 std::span<std::byte> wanted) {
  RUN_ASSERT(values.size() == record.type.bytes());
  const auto fold_part = [&](size_t begin, size_t end, std::byte* target) {
    for (int rank = 0; rank < size_; ++rank) sources_[static_cast<size_t>(rank)] = stage(rank) + begin;
    fold(record.type.dtype, record.reduction, sources_, end - begin, target);
  };
  const auto stage_mine = [&](size_t offset, size_t count) { copy_bytes(stage(rank_), values.data() + offset, count); };
  if (values.size() <= kSmall && size_ <= kFewRanks) {
    pass(record, values.size(), stage_mine, [&](size_t, size_t) {
      if (!wanted.empty()) fold_part(first, first + wanted.size(), wanted.data());
    });
    return;
  }
  pass(record, values.size(), stage_mine, [&](size_t offset, size_t count) {
    const auto [begin, end] = part_of(count, rank_, size_, kLine);
    if (begin < end) fold_part(begin, end, folded() + begin);
    wait_for_all();
    const size_t from = std::max(offset, first), to = std::min(offset + count, first + wanted.size());
    if (from < to) copy_bytes(wanted.data() + (from - first), folded() + (from - offset), to - from);
  });
}

void SharedMemoryGroup::gather(const CallRecord& record, std::span<const std::byte> mine, std::span<std::byte> all) {
  RUN_ASSERT(all.size() == mine.size() * static_cast<size_t>(size_));
  pass(
      record, mine.size(), [&](size_t offset, size_t count) { copy_bytes(stage(rank_), mine.data() + offset, count); },
      [&](size_t offset, size_t count) {
        for (int rank = 0; rank < size_; ++rank)
          copy_bytes(all.data() + static_cast<size_t>(rank) * mine.size() + offset, stage(rank), count);
      });
}

void SharedMemoryGroup::all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                                   const Site& site) {
  const ScopedSpan span = collective_span("all_gather", mine.size(), site);
  RUN_ASSERT(mine.size() == type.bytes());
  gather(CallRecord::of(CallKind::kAllGather, type, site), mine, all);
}

void SharedMemoryGroup::broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) {
  const ScopedSpan span = collective_span("broadcast", values.size(), site);
  RUN_ASSERT(values.size() == type.bytes());
  CallRecord record = CallRecord::of(CallKind::kBroadcast, type, site);
  record.root = root;
  pass(
      record, values.size(),
      [&](size_t offset, size_t count) {
        if (rank_ == root) copy_bytes(stage(rank_), values.data() + offset, count);
      },
      [&](size_t offset, size_t count) {
        if (rank_ != root) copy_bytes(values.data() + offset, stage(root), count);
      });
}

std::vector<std::string> SharedMemoryGroup::gather_objects(std::string_view mine, const Site& site) {
  const ScopedSpan span = collective_span("gather_objects", mine.size(), site);
  const CallRecord record = CallRecord::of(CallKind::kGatherObjects, {}, site);
  const size_t size = mine.size();
  std::vector<size_t> sizes(static_cast<size_t>(size_));
  gather(record, std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));

  std::vector<std::string> all(sizes.size());
  for (size_t rank = 0; rank < all.size(); ++rank) all[rank].reserve(sizes[rank]);
  const auto rest = [this](size_t bytes, size_t offset) { return std::min(piece_, bytes - std::min(bytes, offset)); };
  pass(
      record, *std::max_element(sizes.begin(), sizes.end()),
      [&](size_t offset, size_t) { copy_bytes(stage(rank_), mine.data() + offset, rest(size, offset)); },
      [&](size_t offset, size_t) {
        for (size_t rank = 0; rank < all.size(); ++rank)
          all[rank].append(reinterpret_cast<const char*>(stage(static_cast<int>(rank))), rest(sizes[rank], offset));
      });
  return all;
}

// ---- memory --------------------------------------------------------------------------------------------------------

std::shared_ptr<std::byte> SharedMemoryGroup::symmetric_alloc(const TensorType& type, Pages pages, const Site& site) {
  const ScopedSpan span = collective_span("symmetric_alloc", type.bytes(), site);
  call_barrier(CallRecord::of(CallKind::kSymmetricAlloc, type, site), false);
  const size_t bytes = std::max<size_t>(type.bytes(), 1), offset = shared_end_;
  shared_end_ = whole_pages(offset + SharedMemory::kOwners + bytes);
  if (rank_ == 0) memory_.extend(shared_end_, pages);
  wait_for_all();
  std::shared_ptr<std::byte> memory = memory_.map(offset, bytes, pages);
  wait_for_all();  // no rank may release it before all ranks have mapped it
  return memory;
}

}  // namespace runner::backends
