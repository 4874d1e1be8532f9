// The one pool of threads on which kernels run.
//
// Work is cut into chunks whose number and bounds depend on shapes alone; threads claim chunks, the caller among them.
// So the thread count never changes what is computed.  A worker that has nothing to do spins for a short while, then
// sleeps.  A chunk that throws stops the claiming; the first exception is rethrown on the caller.
//
// Thread safety: parallel_for may be called by one thread at a time and not from inside a chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace runner::backends {

class WorkerPool {
  using Call = void (*)(const void* body, int64_t chunk);

 public:
  // `threads` in all, the caller included; 1 starts none.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(chunk) once for each chunk in [0, chunks) and returns when all have ended.  `body` is called through a
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

  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::jthread> workers_;
};

}  // namespace runner::backends
