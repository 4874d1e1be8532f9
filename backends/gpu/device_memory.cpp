#include "backends/gpu/device_memory.h"

#include "backends/gpu/memory_shortage.h"

namespace runner::backends::gpu {

std::string_view MemorySpec::describe(std::string_view array) const {
  const auto found = descriptions.find(array);
  return found != descriptions.end() ? std::string_view(found->second) : array;
}

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

void DeviceMemory::run(StepAllocations& step, const MemoryModel::Submission& submission, const SourceLines* lines) {
  const bool is_new = step.runs() == 0;
  const auto refusal = model_.run(step, submission);
  if (!refusal) return is_new ? remember(step.trace()) : void();
  const OutOfMemory error = error_of(step, *refusal, lines);
  model_.give_up(step);
  throw error;
}

void DeviceMemory::stage(uint64_t number, const StepAllocations& like, std::span<const int64_t> bytes) {
  const auto refusal = model_.stage(number, like, bytes, kStreamPools.copy_in);
  if (!refusal) return;
  const OutOfMemory error = error_of(like, *refusal, nullptr);
  model_.drop_staged();
  throw error;
}

// A hook may make other steps again and again.
void DeviceMemory::remember(const MemoryTrace& trace) {
  constexpr size_t kMaxSeen = 16;
  if (training_ != nullptr) return;
  if (seen_.size() == kMaxSeen) seen_.pop_front();
  seen_.push_back(trace);
}

// Blocks in use now get the source lines of this submission.
OutOfMemory DeviceMemory::error_of(const StepAllocations& step, const Refusal& refusal, const SourceLines* lines) {
  const MemoryTrace& trace = step.trace();
  const auto owner_of = [&](size_t b) {
    const TraceBuffer& its = trace.buffers[b];
    const bool is_of_lines = lines != nullptr && lines->has(its.origin);
    return owners().intern(its.name, is_of_lines ? lines->at(its.origin) : its.line);
  };
  model_.set_owners(step, owner_of);
  TrainingSteps steps_so_far;
  const auto add = [&](const MemoryTrace& its) {
    (its.writes_states ? steps_so_far.training : steps_so_far.evaluation).push_back(&its);
  };
  for (const MemoryTrace& its : seen_) add(its);
  if (step.runs() == 0) add(trace);
  return out_of_memory({.spec = &spec_,
                        .requested = refusal.bytes,
                        .pool = refusal.pool,
                        .owner = refusal.buffer ? owner_of(*refusal.buffer) : refusal.owner,
                        .trace = &trace,
                        .arrays = model_.other_arrays(step),
                        .staged = trace.writes_states ? std::vector<int64_t>() : model_.staged_bytes(),
                        .steps = training_ != nullptr ? training_ : &steps_so_far,
                        .are_all_steps = training_ != nullptr},
                       allocator(), owners());
}

MemoryForecast forecast_memory(const MemoryTrace& trace, const MemorySpec& spec) {
  DeviceMemory memory(spec);
  for (const TraceInput& state : trace.states)
    memory.allocate(state.bytes, kStreamPools.compute, memory.owners().intern(spec.describe(state.name)));
  const PoolStatistics& counted = memory.allocator().statistics().all;
  const int64_t resident = counted.reserved_bytes.current;
  StepAllocations step(trace, memory.owners());
  while (step.runs() < runs_until_steady(spec.captures))
    memory.run(step, {.pools = pools_of_run(step.runs(), spec.captures)});
  return {resident, counted.reserved_bytes.peak};
}

int64_t forecast_training(std::span<const ArrayBytes> arrays, const TrainingSteps& steps, const MemorySpec& spec) {
  DeviceMemory memory(spec);
  for (const ArrayBytes& array : arrays)
    if (array.bytes > 0)
      memory.allocate(array.bytes, kStreamPools.compute, memory.owners().intern(spec.describe(array.name)));
  memory.set_training(&steps);
  TrainingReplay(steps, spec.captures, memory, memory.owners()).run();
  return memory.allocator().statistics().all.reserved_bytes.peak;
}

}  // namespace runner::backends::gpu
