#include "backends/gpu/device_memory.h"

#include "backends/gpu/memory_shortage.h"

namespace runner::backends::gpu {

void DeviceMemory::expect_arrays(std::vector<int64_t> arrays, std::vector<int64_t> for_parts) {
  spec_.arrays = std::move(arrays);
  spec_.for_parts = std::move(for_parts);
}

BlockId DeviceMemory::allocate(int64_t bytes, PoolId pool, OwnerId owner) {
  const BlockId id = allocator().allocate(bytes, pool, owner);
  if (id == kNoBlock)
    throw out_of_memory({.spec = &spec_, .requested = bytes, .pool = pool, .owner = owner, .arrays = spec_.arrays},
                        allocator(), owners());
  return id;
}

void DeviceMemory::run(StepAccount& step, const MemoryAccount::Submission& submission, const SourceLines* lines) {
  const auto refusal = account_.run(step, submission);
  if (!refusal) return;
  const OutOfMemory error = error_of(step, *refusal, lines);
  account_.give_up(step);
  throw error;
}

void DeviceMemory::stage(uint64_t number, const StepAccount& like, std::span<const int64_t> bytes) {
  const auto refusal = account_.stage(number, like, bytes, kStreamPools.copy_in);
  if (!refusal) return;
  const OutOfMemory error = error_of(like, *refusal, nullptr);
  account_.drop_staged();
  throw error;
}

// Blocks in use now get the source lines of this submission.
OutOfMemory DeviceMemory::error_of(const StepAccount& step, const Refusal& refusal, const SourceLines* lines) {
  const MemoryTrace& trace = step.trace();
  const auto owner_of = [&](size_t b) {
    const TraceBuffer& its = trace.buffers[b];
    const bool is_of_lines = lines != nullptr && lines->has(its.origin);
    return owners().intern(its.name, is_of_lines ? lines->at(its.origin) : its.line);
  };
  account_.set_owners(step, owner_of);
  return out_of_memory({.spec = &spec_,
                        .requested = refusal.bytes,
                        .pool = refusal.pool,
                        .owner = refusal.buffer ? owner_of(*refusal.buffer) : refusal.owner,
                        .trace = &trace,
                        .arrays = account_.arrays_beside(step),
                        .staged = trace.writes_states ? std::vector<int64_t>() : account_.staged_bytes()},
                       allocator(), owners());
}

}  // namespace runner::backends::gpu
