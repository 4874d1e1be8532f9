#include "backends/gpu/memory_model.h"

#include <algorithm>
#include <array>
#include <utility>

namespace runner::backends::gpu {
namespace {

// Allocator states remembered per step: batches alternate between two places, and evaluations come in between.
constexpr size_t kMaxKnown = 4;

// Difference of two statistics if peaks were reset at `before`.
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

StepAllocations::StepAllocations(const MemoryTrace& trace, OwnerTable& owners)
    : trace_(trace), blocks_(trace.buffers.size(), kNoBlock) {
  for (const TraceBuffer& buffer : trace.buffers) owners_.push_back(owners.intern(buffer.name, buffer.line));
  for (const TraceInput& input : trace.batch) batch_owners_.push_back(owners.intern(input.name));
}

bool MemoryModel::Batch::has(size_t input, int64_t bytes) const {
  return std::ranges::any_of(inputs, [&](const CopiedInput& its) { return its.input == input && its.bytes == bytes; });
}

void MemoryModel::free_all(Batch& batch) {
  for (const CopiedInput& input : batch.inputs) allocator_.free(input.block);
  batch.inputs.clear();
  batch.number = 0;
}

void MemoryModel::free_outputs() {
  for (const BlockId id : outputs_) allocator_.free(id);
  outputs_.clear();
}

void MemoryModel::release_step() {
  free_outputs();
  free_all(batch_);
}

std::optional<Refusal> MemoryModel::run(StepAllocations& step, const Submission& submission) {
  free_outputs();
  if (const auto refusal = take_batch(step, submission)) return refusal;
  if (repeat(step, submission.pools.compute)) {
    ++step.known_runs_;
  } else if (const auto refusal = replay(step, submission.pools.compute)) {
    return refusal;
  }
  keep_outputs(step);
  ++step.runs_;
  return std::nullopt;
}

// A step that copies no inputs leaves the previous batch allocated.
std::optional<Refusal> MemoryModel::take_batch(StepAllocations& step, const Submission& submission) {
  const std::vector<TraceInput>& inputs = step.trace_.batch;
  if (inputs.empty()) return std::nullopt;
  if (submission.staged != 0)
    for (Batch* const there : {&staged_, &batch_})
      if (there->number == submission.staged) std::swap(coming_, *there);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (coming_.has(inputs[i].input, inputs[i].bytes)) continue;
    const auto refusal =
        add_input(coming_, inputs[i].input, inputs[i].bytes, submission.pools.copy_in, step.batch_owners_[i]);
    if (refusal) return refusal;
  }
  free_all(batch_);
  std::swap(batch_, coming_);
  return std::nullopt;
}

std::optional<Refusal> MemoryModel::add_input(Batch& batch, size_t input, int64_t bytes, PoolId pool, OwnerId owner) {
  const BlockId id = allocator_.allocate(bytes, pool, owner);
  if (id == kNoBlock) return Refusal{.bytes = bytes, .pool = pool, .owner = owner};
  batch.inputs.push_back({input, bytes, id});
  return std::nullopt;
}

std::optional<Refusal> MemoryModel::stage(uint64_t number, const StepAllocations& like, std::span<const int64_t> bytes,
                                          PoolId copy_in) {
  free_all(staged_);
  const std::vector<TraceInput>& inputs = like.trace_.batch;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].input >= bytes.size() || bytes[inputs[i].input] == 0) continue;
    const auto refusal = add_input(staged_, inputs[i].input, bytes[inputs[i].input], copy_in, like.batch_owners_[i]);
    if (refusal) return refusal;
  }
  staged_.number = number;
  return std::nullopt;
}

// Returns true if the outcome of the launches was known and has been applied.
bool MemoryModel::repeat(StepAllocations& step, PoolId pool) {
  const auto found = std::ranges::find_if(step.known_, [&](const StepAllocations::Outcome& outcome) {
    return outcome.pool == pool && allocator_.has_layout(outcome.before);
  });
  if (found == step.known_.end()) return false;
  for (const StepAllocations::PlacedOutput& output : found->outputs) {
    const auto b = static_cast<size_t>(output.buffer);
    step.blocks_[b] = allocator_.place(output.address, output.bytes, step.trace_.buffers[b].bytes, step.owners_[b]);
  }
  allocator_.count(found->change);
  return true;
}

std::optional<Refusal> MemoryModel::replay(StepAllocations& step, PoolId pool) {
  StepAllocations::Outcome outcome{.pool = pool};
  allocator_.copy_layout(outcome.before);
  const MemoryStatistics before = allocator_.statistics();
  allocator_.reset_peaks();
  const std::optional<Refusal> refusal = launch(step, pool);
  if (!refusal) remember(step, std::move(outcome), before);
  allocator_.raise_peaks(before);
  return refusal;
}

std::optional<Refusal> MemoryModel::launch(StepAllocations& step, PoolId pool) {
  for (const TraceEvent& event : step.trace_.events) {
    const auto b = static_cast<size_t>(event.buffer);
    BlockId& block = step.blocks_[b];
    if (!event.allocates) {
      allocator_.free(std::exchange(block, kNoBlock));
      continue;
    }
    const int64_t bytes = step.trace_.buffers[b].bytes;
    block = allocator_.allocate(bytes, pool, step.owners_[b]);
    if (block == kNoBlock) return Refusal{.bytes = bytes, .pool = pool, .owner = step.owners_[b], .buffer = b};
  }
  return std::nullopt;
}

// If segments were allocated or released, the same state will not recur, so it is not remembered.
void MemoryModel::remember(StepAllocations& step, StepAllocations::Outcome outcome, const MemoryStatistics& before) {
  outcome.change = change_since(before, allocator_.statistics());
  if (outcome.change.all.segments.total > 0 || allocator_.statistics().retries > before.retries) return;
  for (const int32_t b : step.trace_.outputs) {
    const Block& block = allocator_.block(step.blocks_[static_cast<size_t>(b)]);
    outcome.outputs.push_back({b, block.address, block.bytes});
  }
  if (step.known_.size() < kMaxKnown) {
    step.known_.push_back(std::move(outcome));
  } else {
    step.known_[step.oldest_] = std::move(outcome);
    step.oldest_ = (step.oldest_ + 1) % kMaxKnown;
  }
}

void MemoryModel::keep_outputs(StepAllocations& step) {
  for (const int32_t b : step.trace_.outputs)
    outputs_.push_back(std::exchange(step.blocks_[static_cast<size_t>(b)], kNoBlock));
}

void MemoryModel::give_up(StepAllocations& step) {
  for (BlockId& block : step.blocks_)
    if (block != kNoBlock) allocator_.free(std::exchange(block, kNoBlock));
  free_all(batch_);
  free_all(coming_);
}

std::vector<int64_t> MemoryModel::staged_bytes() const {
  std::vector<int64_t> bytes;
  for (const CopiedInput& input : staged_.inputs) bytes.push_back(input.bytes);
  return bytes;
}

std::vector<int64_t> MemoryModel::other_arrays(const StepAllocations& step) const {
  const auto is_of_batch = [this](BlockId id) {
    return std::ranges::any_of(std::array{&batch_, &staged_, &coming_}, [id](const Batch* batch) {
      return std::ranges::find(batch->inputs, id, &CopiedInput::block) != batch->inputs.end();
    });
  };
  const auto is_in = [](const std::vector<BlockId>& blocks, BlockId id) {
    return std::ranges::find(blocks, id) != blocks.end();
  };
  std::vector<int64_t> arrays;
  for (const BlockId id : allocator_.allocated())
    if (!is_in(step.blocks_, id) && !is_in(outputs_, id) && !is_of_batch(id))
      arrays.push_back(allocator_.block(id).requested);
  return arrays;
}

}  // namespace runner::backends::gpu
