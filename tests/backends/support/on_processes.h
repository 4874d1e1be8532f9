// Ranks as processes, each with its own mapping of the shared memory.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"

namespace runner::backends::testing {

// Runs `body` in one process per rank; this process is rank 0. `body` returns whether the test passes.
inline void on_processes(int size, const std::function<bool(SharedMemoryGroup&, SharedMemory&)>& body) {
  SharedMemory memory(SharedMemoryGroup::memory_bytes(size));
  const auto run = [&](int rank, SharedMemory& mine) {
    SharedMemoryGroup ranks(mine, rank, size, {.timeout = std::chrono::seconds(10)});
    return body(ranks, mine);
  };
  std::vector<pid_t> children;
  for (int rank = 1; rank < size; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    SharedMemory mine = SharedMemory::adopt(::dup(memory.descriptor()));  // maps at an address of its own
    ::_exit(run(rank, mine) ? 0 : 1);
  }
  EXPECT_TRUE(run(0, memory));
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace runner::backends::testing
