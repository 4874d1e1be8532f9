// The memory of an emulated GPU, whose errors say what it is short of, and why (memory_shortage.h).
//
// A MemoryAccount that knows whose it is.  Thread safety: one thread at a time, the host's.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/gpu/memory_account.h"
#include "backends/gpu/memory_spec.h"
#include "backends/ir/program.h"
#include "backends/runtime/out_of_memory.h"

namespace runner::backends::gpu {

class DeviceMemory {
 public:
  // Throws as CachingAllocator.
  explicit DeviceMemory(MemorySpec spec) : spec_(std::move(spec)), account_(spec_.limit) {}

  const MemorySpec& spec() const { return spec_; }
  // What errors advise counts these from now on, as MemorySpec has them.
  void expect_arrays(std::vector<int64_t> arrays, std::vector<int64_t> for_parts);
  const CachingAllocator& allocator() const { return account_.allocator(); }
  CachingAllocator& allocator() { return account_.allocator(); }
  OwnerTable& owners() { return account_.owners(); }

  // An array of one byte and more, that stays until it is freed.  Throws OutOfMemory.
  BlockId allocate(int64_t bytes, PoolId pool, OwnerId owner);
  void free(BlockId id) { allocator().free(id); }

  // As MemoryAccount's.  `lines`: those of the submission, which errors name; null: those of the Plan.  Throw
  // OutOfMemory; the submission has no memory then, and those before it no outputs, or the batch is not staged.
  void run(StepAccount& step, const MemoryAccount::Submission& submission, const SourceLines* lines = nullptr);
  void stage(uint64_t number, const StepAccount& like, std::span<const int64_t> bytes);
  void drop_staged() { account_.drop_staged(); }
  void release_step() { account_.release_step(); }

 private:
  OutOfMemory error_of(const StepAccount& step, const Refusal& refusal, const SourceLines* lines);

  MemorySpec spec_;
  MemoryAccount account_;
};

}  // namespace runner::backends::gpu
