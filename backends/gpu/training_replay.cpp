#include "backends/gpu/training_replay.h"

#include <algorithm>

namespace runner::backends::gpu {
namespace {

struct Refused {};

// Throws Refused. After that its contents are undefined.
class LimitedMemory {
 public:
  explicit LimitedMemory(int64_t limit) : model_(limit) {}

  OwnerTable& owners() { return model_.owners(); }
  bool holds(int64_t bytes) { return model_.allocator().allocate(bytes, kStreamPools.compute, 0) != kNoBlock; }
  void run(StepAllocations& step, const MemoryModel::Submission& submission) {
    if (model_.run(step, submission)) throw Refused();
  }
  void stage(uint64_t number, const StepAllocations& like, std::span<const int64_t> bytes) {
    if (model_.stage(number, like, bytes, kStreamPools.copy_in)) throw Refused();
  }

 private:
  MemoryModel model_;
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
