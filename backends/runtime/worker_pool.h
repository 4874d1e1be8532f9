// The thread pool that kernels run on.
//
// Work is split into chunks whose number and bounds depend only on shapes. Threads, including the caller, claim chunks,
// each first those of its share, so the number of threads never changes the result. An idle worker spins for a short
// time, then sleeps. After a chunk throws, no more chunks run; the first exception is rethrown on the caller.
//
// Thread safety: parallel_for may be called by one thread at a time and not from inside a chunk.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace runner::backends {

class WorkerPool {
  using Call = void (*)(const void* body, int64_t chunk);

 public:
  // `threads`: total, including the caller; 1 starts no thread.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(chunk) once for each chunk in [0, chunks) and returns when all have ended. `body` is called through a
  // pointer and never copied; nothing is allocated.
  template <class Body>
  void parallel_for(int64_t chunks, const Body& body) {
    if (chunks <= 1 || workers_.empty()) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
      return;
    }
    const Call call = [](const void* b, int64_t chunk) { (*static_cast<const Body*>(b))(chunk); };
    run(chunks, call, &body);
  }

 private:
  void run(int64_t chunks, Call call, const void* body);
  void join();

  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::jthread> workers_;
};

}  // namespace runner::backends
