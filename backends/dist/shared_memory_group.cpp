#include "backends/dist/shared_memory_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "backends/dist/barrier.h"
#include "backends/dist/fixed_text.h"
#include "backends/dist/fold.h"
#include "backends/dist/rank_error.h"
#include "backends/runtime/cpu_features.h"
#include "backends/runtime/spans.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

constexpr size_t kLine = 64;                  // bytes of a cache line
constexpr size_t kPiece = size_t{256} << 10;  // bytes that each rank passes at a time
constexpr size_t kSmall = size_t{16} << 10;   // up to this size a second barrier costs more than folding everything

void copy_bytes(std::byte* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);  // without bytes, the pointer may be null
}

ScopedSpan span_of(std::string_view call, size_t bytes, const Site& site) {
  return {SpanKind::kCollective, call, {.bytes = static_cast<int64_t>(bytes), .what = site.what}};
}

size_t whole_pages(size_t bytes) {
  return round_up(bytes, SharedMemory::page_bytes());
}

}  // namespace

// Reason of a rank's failure; both strings may be truncated. Each rank has its own. It is valid once it is complete, so
// a process that dies while writing it does not prevent others from failing.
struct SharedMemoryGroup::Reason {
  int32_t line;
  char file[256];
  char text[2048];

  void set(std::string_view reason, const SourceMark& where) {
    set_fixed_text(text, reason);
    set_fixed_text(file, where.file);
    line = where.line;
  }
  [[noreturn]] void raise() const { throw RankError(ErrorKind::kRun, text, {file, line, 0}); }
};

// Written by one rank and read by all. Records and stages alternate: before one is written again, a barrier has
// separated it from its readers.
struct alignas(64) SharedMemoryGroup::RankArea {
  std::atomic<uint64_t> calls;
  CallRecord records[2];
  Reason reason;
  alignas(64) std::byte stages[2][kPiece];
};

// Written by all ranks; followed by the areas of the ranks.
struct alignas(64) SharedMemoryGroup::CommonArea {
  Barrier barrier;
  alignas(64) std::byte folded[kPiece];
};

SharedMemoryGroup::Options SharedMemoryGroup::options_for(int size, std::chrono::milliseconds timeout) {
  return {.timeout = timeout, .spin = size <= usable_cores()};
}

size_t SharedMemoryGroup::memory_bytes(int size) {
  return sizeof(CommonArea) + static_cast<size_t>(size) * sizeof(RankArea);
}

SharedMemoryGroup::SharedMemoryGroup(SharedMemory& memory, int rank, int size, const Options& options)
    : memory_(memory),
      rank_(rank),
      size_(size),
      options_(options),
      shared_end_(whole_pages(memory_bytes(size))),
      sources_(static_cast<size_t>(size)) {
  RUN_ASSERT(rank >= 0 && rank < size && memory.bytes().size() >= memory_bytes(size));
}

SharedMemoryGroup::CommonArea& SharedMemoryGroup::common() const {
  return *reinterpret_cast<CommonArea*>(memory_.bytes().data());
}

SharedMemoryGroup::RankArea& SharedMemoryGroup::area(int rank) const {
  return reinterpret_cast<RankArea*>(memory_.bytes().data() + sizeof(CommonArea))[rank];
}

std::byte* SharedMemoryGroup::stage(int rank) const {
  return area(rank).stages[side_];
}

// ---- barrier -------------------------------------------------------------------------------------------------------

void SharedMemoryGroup::wait_for_all() {
  Barrier& barrier = common().barrier;
  switch (barrier.wait(size_, options_.spin ? nullptr : &backoff_, options_.timeout)) {
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
  const std::lock_guard lock(failing_);
  if (common().barrier.has_failed()) return;  // this rank's reason may be the one that others read
  area(rank_).reason.set(reason, where);
  common().barrier.fail(rank_);
}

bool SharedMemoryGroup::has_failed() const {
  return common().barrier.has_failed();
}

void SharedMemoryGroup::throw_failure() const {
  if (has_failed()) area(common().barrier.failed_rank()).reason.raise();
}

CallRecord SharedMemoryGroup::newest_call(int rank) const {
  const RankArea& there = area(rank);
  return there.records[there.calls.load(std::memory_order_acquire) % 2];
}

std::string SharedMemoryGroup::who_is_missing() const {
  const CallRecord mine = newest_call(rank_);
  std::vector<int> absent;
  for (int rank = 0; rank < size_; ++rank)
    if (area(rank).calls.load(std::memory_order_acquire) < calls_) absent.push_back(rank);
  const auto seconds = options_.timeout.count() / 1000;
  if (absent.empty())
    return fmt::format("{} has taken longer than {} s (collective_timeout)", mine.to_string(), seconds);
  const std::string newest = newest_call(absent.front()).to_string();
  if (absent.size() == 1)
    return fmt::format("rank {} has not come to {} within {} s (collective_timeout); its newest call was {}",
                       absent.front(), mine.to_string(), seconds, newest);
  return fmt::format("ranks {} have not come to {} within {} s (collective_timeout); the newest call of rank {} was {}",
                     fmt::join(absent, ", "), mine.to_string(), seconds, absent.front(), newest);
}

// Records the call, waits for all ranks, and throws if their calls do not match.
void SharedMemoryGroup::begin(const CallRecord& record) {
  RankArea& here = area(rank_);
  here.records[++calls_ % 2] = record;
  here.calls.store(calls_, std::memory_order_release);
  wait_for_all();
  for (int rank = 0; rank < size_; ++rank) {
    if (area(rank).records[calls_ % 2].matches(record)) continue;
    std::vector<CallRecord> calls;
    for (int each = 0; each < size_; ++each) calls.push_back(area(each).records[calls_ % 2]);
    give_up(describe_disagreement(calls));
  }
}

bool SharedMemoryGroup::any(bool mine, const Site& site) {
  const ScopedSpan span = span_of("barrier", 0, site);
  *stage(rank_) = std::byte{mine};
  begin(CallRecord::of(CallKind::kBarrier, {}, site));
  bool found = false;
  for (int rank = 0; rank < size_; ++rank) found |= *stage(rank) != std::byte{};
  side_ ^= 1;
  return found;
}

// ---- values --------------------------------------------------------------------------------------------------------

// Passes `bytes` bytes in pieces: stage(offset, count) writes this rank's piece, take(offset, count) reads the pieces
// of all ranks.
template <class Stage, class Take>
void SharedMemoryGroup::pass(const CallRecord& record, size_t bytes, const Stage& stage, const Take& take) {
  size_t offset = 0;
  do {
    const size_t count = std::min(kPiece, bytes - offset);
    stage(offset, count);
    offset == 0 ? begin(record) : wait_for_all();
    take(offset, count);
    side_ ^= 1;
    offset += kPiece;
  } while (offset < bytes);
}

void SharedMemoryGroup::fold_all(const CallRecord& record, std::span<std::byte> values, int keeper) {
  RUN_ASSERT(values.size() == record.type.bytes());
  const auto fold_share = [&](size_t first, size_t end, std::byte* target) {
    for (int rank = 0; rank < size_; ++rank) sources_[static_cast<size_t>(rank)] = stage(rank) + first;
    fold(record.type.dtype, record.reduction, sources_, end - first, target);
  };
  const bool keeps = keeper == kAll || keeper == rank_;
  const auto stage_mine = [&](size_t offset, size_t count) { copy_bytes(stage(rank_), values.data() + offset, count); };
  if (values.size() <= kSmall) {
    pass(record, values.size(), stage_mine, [&](size_t, size_t count) {
      if (keeps) fold_share(0, count, values.data());
    });
    return;
  }
  std::byte* const folded = common().folded;
  pass(record, values.size(), stage_mine, [&](size_t offset, size_t count) {
    const auto [first, end] = part_of(count, kLine, rank_, size_);
    fold_share(first, end, folded + first);
    wait_for_all();
    if (keeps) copy_bytes(values.data() + offset, folded, count);
  });
}

void SharedMemoryGroup::all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction,
                                   const Site& site) {
  const ScopedSpan span = span_of("all_reduce", values.size(), site);
  CallRecord record = CallRecord::of(CallKind::kAllReduce, type, site);
  record.reduction = reduction;
  fold_all(record, values, kAll);
}

void SharedMemoryGroup::reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, int root,
                               const Site& site) {
  const ScopedSpan span = span_of("reduce", values.size(), site);
  CallRecord record = CallRecord::of(CallKind::kReduce, type, site);
  record.reduction = reduction;
  record.root = root;
  fold_all(record, values, root);
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
  const ScopedSpan span = span_of("all_gather", mine.size(), site);
  RUN_ASSERT(mine.size() == type.bytes());
  gather(CallRecord::of(CallKind::kAllGather, type, site), mine, all);
}

void SharedMemoryGroup::broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) {
  const ScopedSpan span = span_of("broadcast", values.size(), site);
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
  const ScopedSpan span = span_of("gather_objects", mine.size(), site);
  const CallRecord record = CallRecord::of(CallKind::kGatherObjects, {}, site);
  const size_t size = mine.size();
  std::vector<size_t> sizes(static_cast<size_t>(size_));
  gather(record, std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));

  std::vector<std::string> all(sizes.size());
  for (size_t rank = 0; rank < all.size(); ++rank) all[rank].reserve(sizes[rank]);
  const auto rest = [](size_t bytes, size_t offset) { return std::min(kPiece, bytes - std::min(bytes, offset)); };
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

std::shared_ptr<std::byte> SharedMemoryGroup::share(const TensorType& type, const Site& site) {
  return share(type, SharedMemory::Pages::kAtOnce, site);
}

std::shared_ptr<std::byte> SharedMemoryGroup::reserve(const TensorType& type, const Site& site) {
  return share(type, SharedMemory::Pages::kWhenTouched, site);
}

std::shared_ptr<std::byte> SharedMemoryGroup::share(const TensorType& type, SharedMemory::Pages pages,
                                                    const Site& site) {
  const ScopedSpan span = span_of("share", type.bytes(), site);
  begin(CallRecord::of(CallKind::kShare, type, site));
  const size_t bytes = std::max<size_t>(type.bytes(), 1), offset = shared_end_;
  shared_end_ = whole_pages(offset + SharedMemory::kOwners + bytes);
  if (rank_ == 0) memory_.extend(shared_end_, pages);
  wait_for_all();
  std::shared_ptr<std::byte> memory = memory_.map(offset, bytes, pages);
  wait_for_all();  // no rank may release it before all ranks have mapped it
  return memory;
}

}  // namespace runner::backends
