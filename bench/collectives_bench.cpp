// ProcessGroup between processes: a large all-reduce compared with a memory copy in the same run, and the latency of a
// small one.
//
//     collectives_bench [PROCESSES] [MEGABYTES]
//
// Bytes are those that must be read and written: each rank's values once in each direction. The copy is made by as many
// processes at once, each with its own memory. Rounds of both alternate, and medians are compared.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"

namespace {

using namespace runner::backends;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15;
constexpr int kSmallCalls = 20'000;
constexpr size_t kSmallBytes = 4096;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// Seconds from when all ranks are ready until all have done `work`.
template <class Work>
double seconds_of(ProcessGroup& ranks, const Work& work) {
  ranks.barrier({"ready"});
  const auto start = Clock::now();
  work();
  ranks.barrier({"done"});
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TensorType floats(size_t bytes) {
  return {DType::kF32, Shape{static_cast<int64_t>(bytes / sizeof(float))}};
}

void measure(ProcessGroup& ranks, size_t bytes) {
  std::vector<std::byte> values(bytes), target(bytes);
  std::vector<double> copies, reductions, delays;
  for (int round = 0; round < kRounds; ++round) {
    copies.push_back(seconds_of(ranks, [&] { std::memcpy(target.data(), values.data(), bytes); }));
    reductions.push_back(
        seconds_of(ranks, [&] { ranks.all_reduce(floats(bytes), values, Reduction::kSum, {"large"}); }));
    const std::span<std::byte> small = std::span(values).first(kSmallBytes);
    delays.push_back(seconds_of(ranks, [&] {
      for (int i = 0; i < kSmallCalls; ++i) ranks.all_reduce(floats(kSmallBytes), small, Reduction::kSum, {"small"});
    }));
  }
  if (ranks.rank() != 0) return;
  const double moved = 2.0 * static_cast<double>(bytes) * ranks.size();
  const double copy = moved / median(copies) * 1e-9, reduction = moved / median(reductions) * 1e-9;
  std::printf("%d processes, %u cores\n", ranks.size(), std::thread::hardware_concurrency());
  std::printf("copy        %8.1f GB/s read and written\n", copy);
  std::printf("all_reduce  %8.1f GB/s for %zu MB each: %.2f of the copy\n", reduction, bytes / 1'000'000,
              reduction / copy);
  std::printf("all_reduce  %8.2f us for %zu bytes\n", median(delays) / kSmallCalls * 1e6, kSmallBytes);
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const size_t bytes = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 100) * 1'000'000;
  SharedMemory memory(SharedMemoryGroup::memory_bytes(size));
  const bool spin = static_cast<unsigned>(size) <= std::thread::hardware_concurrency();
  int rank = 0;
  for (int next = 1; next < size && rank == 0; ++next)
    if (::fork() == 0) rank = next;
  SharedMemoryGroup ranks(memory, rank, size, {.spin = spin});
  measure(ranks, bytes);
  while (rank == 0 && ::wait(nullptr) > 0) {
  }
  return 0;
}
