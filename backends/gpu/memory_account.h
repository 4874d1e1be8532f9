// The memory of an emulated GPU as its host accounts for it: arrays, and what submissions take as they are launched.
//
// The device calls run() where it submits an Executable, before anything is launched: that is where a GPU's host learns
// that memory is short.  In order: what the submission before left behind is freed, its outputs and then, when the new
// batch has memory (copies run ahead), its batch; then launches allocate and free as their trace says.  A batch that is
// staged is beside all this until a submission names it.
//
// Replays are cheap: an account remembers from which state of the allocator a replay led where, and where the very same
// state is found again, block by block, only the outputs are put where they were and what was counted is counted again.
// So figures, peaks included, are those of a replay.
// Nothing throws for want of memory: who asks decides what a refusal is.  Thread safety: one thread at a time, the
// host's.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/memory_owner.h"
#include "backends/gpu/memory_trace.h"
#include "backends/gpu/step_pools.h"

namespace runner::backends::gpu {

// What one device knows of one Executable's submissions.  The trace must outlive it.
class StepAccount {
 public:
  StepAccount(const MemoryTrace& trace, OwnerTable& owners);

  const MemoryTrace& trace() const { return trace_; }
  // Submissions so far that had their memory.
  int64_t runs() const { return runs_; }
  // How many of them were known, for tests.
  int64_t known_runs() const { return known_runs_; }

 private:
  friend class MemoryAccount;

  struct Placed {
    int32_t buffer;
    int64_t address, bytes;
  };
  struct Outcome {
    PoolId pool = 0;                  // of what it computes
    std::vector<Extent> before = {};  // the state that it began with
    std::vector<Placed> outputs = {};
    MemoryStatistics change = {};
  };

  const MemoryTrace& trace_;
  std::vector<OwnerId> owners_, batch_owners_;  // by buffer, by input of MemoryTrace::batch
  std::vector<BlockId> blocks_;                 // by buffer; kNoBlock: there is none now
  std::vector<Outcome> known_;
  size_t oldest_ = 0;  // of these, once they are full
  int64_t runs_ = 0, known_runs_ = 0;
};

// A request for which the device has not the memory.
struct Refusal {
  int64_t bytes = 0;
  PoolId pool = 0;
  OwnerId owner = 0;
  std::optional<size_t> buffer = {};  // of the step's trace; none: of a batch
};

class MemoryAccount {
 public:
  // Throws as CachingAllocator.
  explicit MemoryAccount(int64_t limit) : allocator_(limit) { allocator_.pin(kCapturePools.compute); }

  const CachingAllocator& allocator() const { return allocator_; }
  CachingAllocator& allocator() { return allocator_; }
  OwnerTable& owners() { return owners_; }

  struct Submission {
    StepPools pools = kStreamPools;
    uint64_t staged = 0;  // the number of the batch that it reads; 0: it brings its own
  };
  // Behind a refusal there is what the step and its batch had until then: give_up() frees it.
  std::optional<Refusal> run(StepAccount& step, const Submission& submission);
  // Makes room for a batch of this number, of so many bytes by input, of which `like` reads some: the only one that no
  // submission has named.
  std::optional<Refusal> stage(uint64_t number, const StepAccount& like, std::span<const int64_t> bytes,
                               PoolId copy_in);
  void give_up(StepAccount& step);
  void drop_staged() { free_all(staged_); }
  // Frees what the newest submission has left: its outputs, and its batch.
  void release_step();

  // In bytes, by input, of a batch that no submission has named.
  std::vector<int64_t> staged_bytes() const;
  // What is neither of a step nor of a batch.
  std::vector<int64_t> arrays_beside(const StepAccount& step) const;
  // Gives the blocks of a step other owners, by buffer.
  template <class OwnerOf>
  void set_owners(const StepAccount& step, const OwnerOf& owner_of) {
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
    uint64_t number = 0;  // 0: it was not staged
    std::vector<CopiedInput> inputs = {};

    bool has(size_t input, int64_t bytes) const;
  };

  void free_all(Batch& batch);
  void free_outputs();
  std::optional<Refusal> take_batch(StepAccount& step, const Submission& submission);
  std::optional<Refusal> add_input(Batch& batch, size_t input, int64_t bytes, PoolId pool, OwnerId owner);
  bool repeat(StepAccount& step, PoolId pool);
  std::optional<Refusal> replay(StepAccount& step, PoolId pool);
  std::optional<Refusal> launch(StepAccount& step, PoolId pool);
  void remember(StepAccount& step, StepAccount::Outcome outcome, const MemoryStatistics& before);
  void keep_outputs(StepAccount& step);

  CachingAllocator allocator_;
  OwnerTable owners_;
  Batch batch_, staged_, coming_;  // of the newest submission; of none yet; of the one at hand
  std::vector<BlockId> outputs_;   // of the newest submission
};

}  // namespace runner::backends::gpu
