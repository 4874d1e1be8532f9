// Models the memory of an emulated GPU: arrays, and what submissions allocate when they are launched.
//
// The device calls run() when it submits an Executable, before any launch, as the host of a real GPU learns of a memory
// shortage when it launches. First the previous submission is freed: its outputs and, once the new batch is allocated
// (copies run ahead), its batch. Then the launches allocate and free as their trace says. A staged batch is kept in
// addition until a submission names it.
//
// Replays are cheap. A StepAllocations remembers for some allocator states what a replay does. If exactly the same
// state recurs, block by block, only the outputs are placed again and the recorded statistics are added. Figures, peaks
// included, equal those of a full replay. A shortage is returned as a Refusal, not thrown. Thread safety: only for
// the host's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

// With gpu.capture, number of eager runs before a step is captured.
inline constexpr int64_t kRunsBeforeCapture = 2;

inline bool is_captured(int64_t runs_before, bool captures) {
  return captures && runs_before >= kRunsBeforeCapture;
}

// Allocator pools that a submission uses.
struct StepPools {
  PoolId compute = 0;
  PoolId copy_in = 0;  // pool of batches
};
// Each stream has a pool of its own.
inline constexpr StepPools kStreamPools{.compute = 0, .copy_in = 1};
// Captured graphs share a separate pool, which is never released.
inline constexpr StepPools kCapturePools{.compute = 2, .copy_in = 1};

inline StepPools pools_of_run(int64_t runs_before, bool captures) {
  return is_captured(runs_before, captures) ? kCapturePools : kStreamPools;
}
// Number of runs after which a step allocates no more: during the second run the batch of the first still exists.
inline int64_t runs_until_steady(bool captures) {
  return captures ? kRunsBeforeCapture + 1 : 2;
}

// What one device has recorded about the submissions of one Executable. The trace must outlive it.
class StepAllocations {
 public:
  StepAllocations(const MemoryTrace& trace, OwnerTable& owners);

  const MemoryTrace& trace() const { return trace_; }
  // Number of submissions that got their memory.
  int64_t runs() const { return runs_; }
  // Number of submissions answered from a remembered outcome; for tests.
  int64_t known_runs() const { return known_runs_; }

 private:
  friend class MemoryModel;

  struct PlacedOutput {
    int32_t buffer;
    int64_t address, bytes;
  };
  struct Outcome {
    PoolId pool = 0;                  // pool of the results
    std::vector<Extent> before = {};  // allocator state at the start
    std::vector<PlacedOutput> outputs = {};
    MemoryStatistics change = {};
  };

  const MemoryTrace& trace_;
  std::vector<OwnerId> owners_, batch_owners_;  // by buffer, and by entry of MemoryTrace::batch
  std::vector<BlockId> blocks_;                 // by buffer; kNoBlock: not allocated
  std::vector<Outcome> known_;
  size_t oldest_ = 0;  // entry of known_ to replace once it is full
  int64_t runs_ = 0, known_runs_ = 0;
};

// A request that does not fit into the device's memory.
struct Refusal {
  int64_t bytes = 0;
  PoolId pool = 0;
  OwnerId owner = 0;
  std::optional<size_t> buffer = {};  // buffer of the step's trace; none: a batch input
};

class MemoryModel {
 public:
  // Throws like CachingAllocator's constructor.
  explicit MemoryModel(int64_t limit) : allocator_(limit) { allocator_.pin(kCapturePools.compute); }

  const CachingAllocator& allocator() const { return allocator_; }
  CachingAllocator& allocator() { return allocator_; }
  OwnerTable& owners() { return owners_; }

  struct Submission {
    StepPools pools = kStreamPools;
    uint64_t staged = 0;  // number of the staged batch that it reads; 0: it copies its own
  };
  // After a refusal, the blocks allocated for the step and its batch remain; give_up() frees them.
  std::optional<Refusal> run(StepAllocations& step, const Submission& submission);
  // Allocates a staged batch, the only one that no submission has named yet. `bytes`: size of each input, of which
  // `like` reads some.
  std::optional<Refusal> stage(uint64_t number, const StepAllocations& like, std::span<const int64_t> bytes,
                               PoolId copy_in);
  void give_up(StepAllocations& step);
  void drop_staged() { free_all(staged_); }
  // Frees outputs and batch of the newest submission.
  void release_step();

  // Sizes of the inputs of the staged batch that no submission has named.
  std::vector<int64_t> staged_bytes() const;
  // Sizes of the blocks that belong to neither a step nor a batch.
  std::vector<int64_t> other_arrays(const StepAllocations& step) const;
  // Changes the owners of a step's blocks. `owner_of`: called with the buffer index.
  template <class OwnerOf>
  void set_owners(const StepAllocations& step, const OwnerOf& owner_of) {
    for (size_t b = 0; b < step.blocks_.size(); ++b)
      if (step.blocks_[b] != kNoBlock) allocator_.set_owner(step.blocks_[b], owner_of(b));
  }

 private:
  struct CopiedInput {
    size_t input;
    int64_t bytes;
    BlockId block;
  };
  struct Batch {
    uint64_t number = 0;  // 0: not staged
    std::vector<CopiedInput> inputs = {};

    bool has(size_t input, int64_t bytes) const;
  };

  void free_all(Batch& batch);
  void free_outputs();
  std::optional<Refusal> take_batch(StepAllocations& step, const Submission& submission);
  std::optional<Refusal> add_input(Batch& batch, size_t input, int64_t bytes, PoolId pool, OwnerId owner);
  bool repeat(StepAllocations& step, PoolId pool);
  std::optional<Refusal> replay(StepAllocations& step, PoolId pool);
  std::optional<Refusal> launch(StepAllocations& step, PoolId pool);
  void remember(StepAllocations& step, StepAllocations::Outcome outcome, const MemoryStatistics& before);
  void keep_outputs(StepAllocations& step);

  CachingAllocator allocator_;
  OwnerTable owners_;
  Batch batch_, staged_, coming_;  // of the newest submission; not named by a submission yet; of the submission at hand
  std::vector<BlockId> outputs_;   // of the newest submission
};

}  // namespace runner::backends::gpu
