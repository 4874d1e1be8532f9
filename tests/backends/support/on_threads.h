// Ranks as threads with their collectives in one block of memory, so that a sanitizer sees all accesses.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/dist/shared_memory_group.h"
#include "schema/base/error.h"

namespace runner::backends::testing {

// Runs `body` on one thread per rank and waits for all of them.
inline void on_threads(SharedMemory& memory, int size, const std::function<void(SharedMemoryGroup&)>& body,
                       const SharedMemoryGroup::Options& options = {}) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      SharedMemoryGroup ranks(memory, rank, size, options);
      body(ranks);
    });
}

inline void on_threads(int size, const std::function<void(SharedMemoryGroup&)>& body,
                       const SharedMemoryGroup::Options& options = {}) {
  SharedMemory memory(SharedMemoryGroup::memory_bytes(size));
  on_threads(memory, size, body, options);
}

// Returns the error of each rank's `body`.
inline std::vector<std::string> errors_of(int size, const std::function<void(SharedMemoryGroup&)>& body,
                                          const SharedMemoryGroup::Options& options = {}) {
  std::vector<std::string> errors(static_cast<size_t>(size), "no error");
  on_threads(
      size,
      [&](SharedMemoryGroup& ranks) {
        try {
          body(ranks);
        } catch (const Error& error) {
          errors[static_cast<size_t>(ranks.rank())] = error.what();
        }
      },
      options);
  return errors;
}

}  // namespace runner::backends::testing
