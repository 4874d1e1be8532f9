#include "backends/gpu/training_replay.h"

#include <algorithm>

namespace runner::backends::gpu {
namespace {

struct Refused {};

// Throws Refused. After that its contents are undefined.
class LimitedMemory {
 public:
  explicit LimitedMemory(int64_t limit) : account_(limit) {}

  OwnerTable& owners() { return account_.owners(); }
  bool holds(int64_t bytes) { return account_.allocator().allocate(bytes, kStreamPools.compute, 0) != kNoBlock; }
  void run(StepAccount& step, const MemoryAccount::Submission& submission) {
    if (account_.run(step, submission)) throw Refused();
  }
  void stage(uint64_t number, const StepAccount& like, std::span<const int64_t> bytes) {
    if (account_.stage(number, like, bytes, kStreamPools.copy_in)) throw Refused();
  }

 private:
  MemoryAccount account_;
};

}  // namespace

bool fits_training(std::span<const int64_t> arrays, const TrainingSteps& steps, int64_t limit, bool captures) {
  LimitedMemory memory(limit);
  if (!std::ranges::all_of(arrays, [&](int64_t bytes) { return bytes == 0 || memory.holds(bytes); })) return false;
  try {
    TrainingReplay(steps, captures, memory, memory.owners()).run();
    return true;
  } catch (const Refused&) {
    return false;
  }
}

}  // namespace runner::backends::gpu
