#include "runner/train/run/rank_threads.h"

#include <exception>
#include <system_error>

#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"
#include "schema/base/system_limits.h"

namespace runner::train {

using backends::SharedMemoryGroup;

RankThreads::RankThreads(int size, std::chrono::milliseconds timeout,
                         const std::function<void(backends::ProcessGroup& ranks)>& follow)
    : memory_(SharedMemoryGroup::memory_bytes(size)),
      group_(memory_, 0, size, SharedMemoryGroup::options_for(size, timeout)) {
  const SignalsBlocked blocked;
  try {
    for (int rank = 1; rank < size; ++rank) start(rank, size, SharedMemoryGroup::options_for(size, timeout), follow);
  } catch (const std::system_error& error) {
    end();
    fail(ErrorKind::kRun, "cannot start the thread of rank {}: {}; {}", threads_.size() + 1,
         system_reason(error.code().value()), process_limits());
  }
}

void RankThreads::start(int rank, int size, const SharedMemoryGroup::Options& options,
                        const std::function<void(backends::ProcessGroup& ranks)>& follow) {
  threads_.emplace_back([this, rank, size, options, follow] {
    SharedMemoryGroup ranks(memory_, rank, size, options);
    try {
      follow(ranks);
    } catch (const std::exception& error) {
      ranks.fail(error_of(error).message(), {});  // no effect if the failure has been reported already
    }
  });
}

// Ranks that still wait for rank 0 throw. At the regular end of a run, no rank waits.
void RankThreads::end() {
  group_.fail("the run has ended", {});
  for (std::thread& thread : threads_) thread.join();
}

RankThreads::~RankThreads() {
  end();
}

}  // namespace runner::train
