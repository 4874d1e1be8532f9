// Memory shared by ranks: its contents on each rank, its lifetime, and when pages are committed.
#include "backends/dist/shared_memory.h"

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "backends/dist/shared_memory_group.h"
#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"
#include "tests/backends/support/on_processes.h"
#include "tests/backends/support/on_threads.h"

namespace runner::backends {
namespace {

using Pages = ProcessGroup::Pages;
using testing::errors_of;
using testing::on_processes;
using testing::on_threads;

// Whether each rank sees what the others wrote to the shared memory, in each of several regions.
bool share_what_they_write(SharedMemoryGroup& ranks) {
  const auto size = static_cast<size_t>(ranks.size()), mine = static_cast<size_t>(ranks.rank());
  for (const size_t each : {1, 5'000, 300'000}) {
    const TensorType type{DType::kF32, Shape{ranks.size(), static_cast<int64_t>(each)}};
    const std::shared_ptr<std::byte> memory = ranks.symmetric_alloc(type, Pages::kNow, {"weights"});
    const std::span values(reinterpret_cast<float*>(memory.get()), size * each);
    const auto part = [&](size_t rank) { return values.subspan(rank * each, each); };
    for (const float value : part(mine))
      if (value != 0) return false;
    const auto value_of = [](size_t rank, size_t i) { return static_cast<float>(1 + rank * 1000 + i % 997); };
    for (size_t i = 0; i < each; ++i) part(mine)[i] = value_of(mine, i);
    ranks.barrier({"written"});
    for (size_t rank = 0; rank < size; ++rank)
      for (size_t i = 0; i < each; ++i)
        if (part(rank)[i] != value_of(rank, i)) return false;
  }
  return true;
}

TEST(SharedMemory, IsTheSameForAllThreads) {
  on_threads(3, [](SharedMemoryGroup& ranks) { EXPECT_TRUE(share_what_they_write(ranks)); });
}

TEST(SharedMemory, IsTheSameForAllProcesses) {
  on_processes(4, [](SharedMemoryGroup& ranks, SharedMemory&) { return share_what_they_write(ranks); });
}

// A rank may fail at any point while the others set up the memory.
TEST(SharedMemory, OutlivesRanksThatFail) {
  constexpr int kRounds = 200;
  std::mt19937 random(5);
  for (int round = 0; round < kRounds; ++round) {
    SharedMemory memory(SharedMemoryGroup::memory_bytes(3));
    const auto delay = std::chrono::microseconds(random() % 200);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&memory, rank] {
        SharedMemoryGroup ranks(memory, rank, 3, {.spin = false});
        try {
          for (;;) ranks.symmetric_alloc({DType::kF32, Shape{3}}, Pages::kNow, {"weights"}).get()[rank] = std::byte{1};
        } catch (const Error& error) {
          EXPECT_STREQ(error.what(), "enough");
        }
      });
    std::this_thread::sleep_for(delay);
    SharedMemoryGroup(memory, 0, 3, {}).fail("enough", {});
  }
}

TEST(SharedMemory, SizesMustMatchBetweenRanks) {
  const std::vector<std::string> errors = errors_of(2, [](SharedMemoryGroup& ranks) {
    ranks.symmetric_alloc({DType::kF32, Shape{10 + ranks.rank()}}, Pages::kNow, {"parameters 0"});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(
        error,
        "ranks called different collectives: rank 0 calls symmetric_alloc of parameters 0, (10) f32, at step 0; rank 1 "
        "calls symmetric_alloc of "
        "parameters 0, (11) f32, at step 0");
}

// Bytes committed for the file.
size_t bytes_taken(const SharedMemory& memory) {
  struct stat status {};
  ::fstat(memory.descriptor(), &status);
  return static_cast<size_t>(status.st_blocks) * 512;
}

TEST(SharedMemory, IsFreedWithItsLastOwner) {
  constexpr int64_t kSharedFloats = 1 << 20;
  constexpr size_t kBytes = kSharedFloats * sizeof(float);
  on_processes(3, [](SharedMemoryGroup& ranks, SharedMemory& mine) {
    const size_t before = bytes_taken(mine);
    for (int last = 0; last < ranks.size(); ++last) {
      std::shared_ptr<std::byte> memory =
          ranks.symmetric_alloc({DType::kF32, Shape{kSharedFloats}}, Pages::kNow, {"weights"});
      memory.get()[ranks.rank()] = std::byte{7};
      ranks.barrier({"written"});
      if (ranks.rank() != last) memory.reset();
      ranks.barrier({"the others have let go"});
      if (bytes_taken(mine) < before + kBytes) return false;
      for (int rank = 0; ranks.rank() == last && rank < ranks.size(); ++rank)
        if (memory.get()[rank] != std::byte{7}) return false;
      ranks.barrier({"looked at"});
      memory.reset();
      ranks.barrier({"all have let go"});
      if (bytes_taken(mine) != before) return false;
      ranks.barrier({"looked at again"});
    }
    return true;
  });
}

// Rank 0 commits its row, rank 1 writes a page of its own row, and rank 2 does nothing.
TEST(SharedMemory, IsCommittedOnRequestOrFirstTouch) {
  constexpr size_t kRow = size_t{1} << 20;
  on_processes(3, [](SharedMemoryGroup& ranks, SharedMemory& mine) {
    const size_t page = SharedMemory::page_bytes(), before = bytes_taken(mine);
    std::shared_ptr<std::byte> memory =
        ranks.symmetric_alloc({DType::kF32, Shape{3, kRow / sizeof(float)}}, Pages::kOnTouch, {"gradients"});
    const auto row = [&](int rank) { return std::span(memory.get() + static_cast<size_t>(rank) * kRow, kRow); };
    if (bytes_taken(mine) > before + page) return false;  // the page with the reference count
    ranks.barrier({"looked at"});
    if (ranks.rank() == 0) take_pages(row(0));
    if (ranks.rank() == 1) row(1)[kRow / 2] = std::byte{7};
    ranks.barrier({"taken"});
    const size_t taken = bytes_taken(mine) - before;
    if (taken < kRow + page || taken > kRow + 3 * page) return false;
    if (row(1)[kRow / 2] != std::byte{7} || row(1)[kRow / 2 + 1] != std::byte{}) return false;
    ranks.barrier({"looked at again"});
    memory.reset();
    ranks.barrier({"all have let go"});
    return bytes_taken(mine) == before;
  });
}

TEST(SharedMemory, FailingToCommitPagesIsAnError) {
  const size_t page = SharedMemory::page_bytes();
  void* const gone = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(gone, page);
  try {
    take_pages({static_cast<std::byte*>(gone), page});
    ADD_FAILURE() << "the memory is not mapped";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message(),
        fmt::format(
            "cannot share {} bytes of memory between processes: Cannot allocate memory; use a smaller num_processes",
            page));
  }
}

TEST(SharedMemory, ExceedingAvailableMemoryIsAnError) {
  const size_t bytes = available_memory() / 2 * 3;
  try {
    const SharedMemory memory(bytes);
    ADD_FAILURE() << bytes << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message(),
        fmt::format(
            "cannot share {} bytes of memory between processes: Cannot allocate memory; use a smaller num_processes",
            bytes));
  }
}

}  // namespace
}  // namespace runner::backends
