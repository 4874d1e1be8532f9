#include "backends/gpu/device_memory.h"

#include <algorithm>
#include <utility>

#include "backends/gpu/memory_shortage.h"

namespace runner::backends::gpu {
namespace {

// States of the allocator that an account remembers: batches take turns in two places, and evaluations come between.
constexpr size_t kMostKnown = 4;

// What has happened since `before`, if peaks have been reset then.
MemoryStatistics change_since(const MemoryStatistics& before, const MemoryStatistics& now) {
  MemoryStatistics change = now;
  for_each_statistic(change, before, [](Statistic& ours, const Statistic& then) {
    ours.current -= then.current;
    ours.peak -= then.current;
    ours.total -= then.total;
  });
  return change;
}

}  // namespace

StepAccount::StepAccount(const MemoryTrace& trace, DeviceMemory& memory)
    : trace_(trace), blocks_(trace.buffers.size(), kNoBlock) {
  for (const TraceBuffer& buffer : trace.buffers) owners_.push_back(memory.owners().intern(buffer.name, buffer.line));
  for (const TraceInput& input : trace.batch) batch_owners_.push_back(memory.owners().intern(input.name));
}

BlockId DeviceMemory::allocate(int64_t bytes, StreamId stream, OwnerId owner) {
  const BlockId id = allocator_.allocate(bytes, stream, owner);
  if (id == kNoBlock)
    throw out_of_memory({.device = device_, .requested = bytes, .stream = stream, .owner = owner}, allocator_, owners_);
  return id;
}

void DeviceMemory::free_all(std::vector<BlockId>& blocks) {
  for (const BlockId id : blocks) allocator_.free(id);
  blocks.clear();
}

void DeviceMemory::release_step() {
  free_all(outputs_);
  free_all(batch_);
}

void DeviceMemory::run(StepAccount& step, StepStreams streams, const SourceLines* lines) {
  ++step.runs_;
  free_all(outputs_);
  take_batch(step, streams);
  if (repeat(step, streams.compute)) {
    ++step.known_runs_;
  } else {
    replay(step, streams, lines);
  }
  keep_outputs(step);
}

void DeviceMemory::take_batch(StepAccount& step, StepStreams streams) {
  const std::vector<TraceInput>& inputs = step.trace_.batch;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BlockId id = allocator_.allocate(inputs[i].bytes, streams.copy_in, step.batch_owners_[i]);
    if (id == kNoBlock) {
      const OutOfMemory error = error_of(step, inputs[i].bytes, streams.copy_in, step.batch_owners_[i], streams);
      free_all(next_batch_);
      throw error;
    }
    next_batch_.push_back(id);
  }
  free_all(batch_);
  std::swap(batch_, next_batch_);
}

// True where it is known what the launches come to.
bool DeviceMemory::repeat(StepAccount& step, StreamId stream) {
  const auto found = std::ranges::find_if(step.known_, [&](const StepAccount::Outcome& outcome) {
    return outcome.stream == stream && allocator_.has_layout(outcome.before);
  });
  if (found == step.known_.end()) return false;
  for (const StepAccount::Placed& output : found->outputs) {
    const auto b = static_cast<size_t>(output.buffer);
    step.blocks_[b] = allocator_.place(output.address, output.bytes, step.trace_.buffers[b].bytes, step.owners_[b]);
  }
  allocator_.count(found->change);
  return true;
}

void DeviceMemory::replay(StepAccount& step, StepStreams streams, const SourceLines* lines) {
  StepAccount::Outcome outcome{.stream = streams.compute};
  allocator_.copy_layout(outcome.before);
  const MemoryStatistics before = allocator_.statistics();
  allocator_.reset_peaks();
  try {
    launch(step, streams, lines);
  } catch (...) {
    allocator_.raise_peaks(before);
    throw;
  }
  remember(step, std::move(outcome), before);
  allocator_.raise_peaks(before);
}

void DeviceMemory::launch(StepAccount& step, StepStreams streams, const SourceLines* lines) {
  for (const TraceEvent& event : step.trace_.events) {
    const auto b = static_cast<size_t>(event.buffer);
    BlockId& block = step.blocks_[b];
    if (event.allocates) {
      block = allocator_.allocate(step.trace_.buffers[b].bytes, streams.compute, step.owners_[b]);
      if (block == kNoBlock) fail(step, b, streams, lines);
    } else {
      allocator_.free(std::exchange(block, kNoBlock));
    }
  }
}

// Where segments have come or gone, the state is no other's: it is not worth remembering.
void DeviceMemory::remember(StepAccount& step, StepAccount::Outcome outcome, const MemoryStatistics& before) {
  outcome.change = change_since(before, allocator_.statistics());
  if (outcome.change.all.segments.total > 0 || allocator_.statistics().retries > before.retries) return;
  for (const int32_t b : step.trace_.outputs) {
    const Block& block = allocator_.block(step.blocks_[static_cast<size_t>(b)]);
    outcome.outputs.push_back({b, block.address, block.bytes});
  }
  if (step.known_.size() < kMostKnown) {
    step.known_.push_back(std::move(outcome));
  } else {
    step.known_[step.oldest_] = std::move(outcome);
    step.oldest_ = (step.oldest_ + 1) % kMostKnown;
  }
}

void DeviceMemory::keep_outputs(StepAccount& step) {
  for (const int32_t b : step.trace_.outputs)
    outputs_.push_back(std::exchange(step.blocks_[static_cast<size_t>(b)], kNoBlock));
}

// The blocks at hand are those of the lines at hand.
void DeviceMemory::fail(StepAccount& step, size_t buffer, StepStreams streams, const SourceLines* lines) {
  const auto owner_of = [&](size_t b) {
    const TraceBuffer& its = step.trace_.buffers[b];
    return lines != nullptr && lines->has(its.origin) ? owners_.intern(its.name, lines->at(its.origin))
                                                      : step.owners_[b];
  };
  for (size_t b = 0; b < step.blocks_.size(); ++b)
    if (step.blocks_[b] != kNoBlock) allocator_.set_owner(step.blocks_[b], owner_of(b));
  const OutOfMemory error =
      error_of(step, step.trace_.buffers[buffer].bytes, streams.compute, owner_of(buffer), streams);
  for (BlockId& block : step.blocks_)
    if (block != kNoBlock) allocator_.free(std::exchange(block, kNoBlock));
  free_all(batch_);
  throw error;
}

OutOfMemory DeviceMemory::error_of(const StepAccount& step, int64_t bytes, StreamId stream, OwnerId owner,
                                   StepStreams streams) const {
  return out_of_memory({.device = device_,
                        .requested = bytes,
                        .stream = stream,
                        .owner = owner,
                        .trace = &step.trace_,
                        .streams = streams,
                        .arrays = arrays_beside(step)},
                       allocator_, owners_);
}

// What neither is the step's nor a batch.
std::vector<int64_t> DeviceMemory::arrays_beside(const StepAccount& step) const {
  std::vector<int64_t> arrays;
  for (const BlockId id : allocator_.allocated()) {
    const auto has = [id](const std::vector<BlockId>& blocks) { return std::ranges::find(blocks, id) != blocks.end(); };
    if (!has(step.blocks_) && !has(batch_) && !has(next_batch_)) arrays.push_back(allocator_.block(id).requested);
  }
  return arrays;
}

MemoryForecast forecast_memory(const MemoryTrace& trace, const std::string& device, int64_t limit,
                               std::span<const StepStreams> runs) {
  DeviceMemory memory(device, limit);
  for (const TraceInput& state : trace.states)
    memory.allocate(state.bytes, runs.front().compute, memory.owners().intern(state.name));
  const PoolStatistics& counted = memory.allocator().statistics().all;
  const int64_t resident = counted.reserved_bytes.current;
  StepAccount step(trace, memory);
  for (const StepStreams& streams : runs) memory.run(step, streams);
  return {resident, counted.reserved_bytes.peak, counted.allocated_bytes.peak};
}

}  // namespace runner::backends::gpu
