// The memory of an emulated GPU as its host accounts for it: arrays, and what submissions take as they are launched.
//
// The device calls run() where it submits an Executable, before anything is launched: that is where a GPU's host learns
// that memory is short.  In order: what the submission before left behind is freed, its outputs and then, when the new
// batch has memory (copies run ahead), its batch; then launches allocate and free as their trace says.
//
// Replays are cheap: an account remembers from which state of the allocator a replay led where, and where the very same
// state is found again, block by block, only the outputs are put where they were and what was counted is counted again.
// So figures, peaks included, are those of a replay.
//
// How the device serves train.auto_batch_size and limits of memory: memory_limit() is that of its DeviceMemory;
// compile() calls forecast_memory() for the trace of the Plan, which throws OutOfMemory where states, batch and step
// alone are too much, and arena_bytes() of the Executable is its `temporary`; memory_for() runs all steps of a training
// beside all of its arrays, in an allocator of their own.
// Thread safety: one thread at a time, the host's.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/memory_owner.h"
#include "backends/gpu/memory_trace.h"
#include "backends/runtime/out_of_memory.h"

namespace runner::backends::gpu {

class DeviceMemory;

// What one device knows of one Executable's submissions.  The trace must outlive it.
class StepAccount {
 public:
  StepAccount(const MemoryTrace& trace, DeviceMemory& memory);

  const MemoryTrace& trace() const { return trace_; }
  // For tests and reports: submissions so far, and how many of them were known.
  int64_t runs() const { return runs_; }
  int64_t known_runs() const { return known_runs_; }

 private:
  friend class DeviceMemory;

  struct Placed {
    int32_t buffer;
    int64_t address, bytes;
  };
  struct Outcome {
    StreamId stream = 0;              // that it was launched to
    std::vector<Extent> before = {};  // the state that it began with
    std::vector<Placed> outputs = {};
    MemoryStatistics change = {};
  };

  const MemoryTrace& trace_;
  std::vector<OwnerId> owners_, batch_owners_;  // by buffer, by batch input
  std::vector<BlockId> blocks_;                 // by buffer; kNoBlock: there is none now
  std::vector<Outcome> known_;
  size_t oldest_ = 0;  // of these, once they are full
  int64_t runs_ = 0, known_runs_ = 0;
};

class DeviceMemory {
 public:
  // device: "gpu 0".  Throws as CachingAllocator.
  DeviceMemory(std::string device, int64_t limit) : device_(std::move(device)), allocator_(limit) {
    allocator_.pin(kCaptureStreams.compute);
  }

  const std::string& device() const { return device_; }
  const CachingAllocator& allocator() const { return allocator_; }
  CachingAllocator& allocator() { return allocator_; }
  OwnerTable& owners() { return owners_; }

  // An array of one byte and more, that stays until it is freed.  Throws OutOfMemory.
  BlockId allocate(int64_t bytes, StreamId stream, OwnerId owner);
  void free(BlockId id) { allocator_.free(id); }

  // `lines`: those of the submission, which errors name; null: those of the Plan.  Throws OutOfMemory; the submission
  // has no memory then, and that before it no outputs.
  void run(StepAccount& step, StepStreams streams, const SourceLines* lines = nullptr);
  // Frees what the last submission has left: outputs that nobody reads any more, and its batch.
  void release_step();

 private:
  void free_all(std::vector<BlockId>& blocks);
  void take_batch(StepAccount& step, StepStreams streams);
  bool repeat(StepAccount& step, StreamId stream);
  void replay(StepAccount& step, StepStreams streams, const SourceLines* lines);
  void launch(StepAccount& step, StepStreams streams, const SourceLines* lines);
  void remember(StepAccount& step, StepAccount::Outcome outcome, const MemoryStatistics& before);
  void keep_outputs(StepAccount& step);
  [[noreturn]] void fail(StepAccount& step, size_t buffer, StepStreams streams, const SourceLines* lines);
  OutOfMemory error_of(const StepAccount& step, int64_t bytes, StreamId stream, OwnerId owner,
                       StepStreams streams) const;
  std::vector<int64_t> arrays_beside(const StepAccount& step) const;

  const std::string device_;
  CachingAllocator allocator_;
  OwnerTable owners_;
  std::vector<BlockId> batch_, next_batch_, outputs_;  // of the last submission
};

// What a step takes of a device that has nothing but the arrays it works on.
struct MemoryForecast {
  int64_t resident = 0;  // reserved for its states
  int64_t peak_reserved = 0;
  int64_t peak_allocated = 0;

  int64_t temporary() const { return peak_reserved - resident; }
};

// Of `runs`, one after the other, with states on the compute stream of the first.  Throws OutOfMemory where the limit
// is less.
MemoryForecast forecast_memory(const MemoryTrace& trace, const std::string& device, int64_t limit,
                               std::span<const StepStreams> runs);

}  // namespace runner::backends::gpu
