#include "backends/gpu/memory_shortage.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/memory_account.h"
#include "backends/gpu/size_text.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::gpu {
namespace {

constexpr size_t kLargest = 5;

int64_t resident_bytes(const MemoryShortage& shortage) {
  int64_t bytes = 0;
  for (const int64_t array : shortage.arrays) bytes += block_bytes(array);
  return bytes;
}

// What the device would have to hold at once, if all of it lay side by side.
int64_t needed_bytes(const MemoryShortage& shortage, const CachingAllocator& allocator, const TraceScale& scale = {}) {
  if (shortage.trace != nullptr) return resident_bytes(shortage) + fullest_bytes(scaled(*shortage.trace, scale));
  return allocator.statistics().all.allocated_bytes.current + block_bytes(shortage.requested);
}

// Whether the arrays and the step fit into memory that has never held anything else, with the next batch beside it.
bool fits(const MemoryShortage& shortage, int64_t limit, bool captures, const TraceScale& scale = {}) {
  MemoryAccount account(limit);
  for (const int64_t array : shortage.arrays)
    if (account.allocator().allocate(array, kStreamPools.compute, 0) == kNoBlock) return false;
  const MemoryTrace trace = scaled(*shortage.trace, scale);
  StepAccount step(trace, account.owners());
  const std::vector<int64_t> bytes = batch_bytes(trace);
  for (int64_t run = 0; run < runs_until_steady(captures); ++run) {
    const StepPools pools = pools_of_run(run, captures);
    const auto staged = static_cast<uint64_t>(run);
    if (account.run(step, {.pools = pools, .staged = staged})) return false;
    if (account.stage(staged + 1, step, bytes, pools.copy_in)) return false;
  }
  return true;
}

Advice advice_of(const MemoryShortage& shortage, const CachingAllocator& allocator, bool captures, std::string text,
                 const TraceScale& scale) {
  const bool suffices = fits(shortage, allocator.limit(), captures, scale);
  return {text + (suffices ? "" : "; by itself that is not enough"),
          needed_bytes(shortage, allocator) - needed_bytes(shortage, allocator, scale), suffices};
}

// Of the halves of this batch the largest with which all fits, if not captured; one sample if none does.
Advice smaller_batch(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  const int64_t batch = shortage.trace->batch_size;
  const auto with = [&](int64_t samples, bool captures) {
    return fits(shortage, allocator.limit(), captures, {.samples = samples});
  };
  int64_t samples = ceil_div<int64_t>(batch, 2);
  while (samples > 1 && !with(samples, /*captures=*/false)) samples = ceil_div<int64_t>(samples, 2);
  const bool helps_launches = shortage.captures && with(samples, /*captures=*/false) && !with(samples, true);
  const std::string how =
      shortage.trace->writes_states
          ? fmt::format(
                "; with gradient_accumulation_steps {} times as large, as train.auto_batch_size does it where the loop "
                "is not a hook's, gradients are kept between them",
                ceil_div(batch, samples))
          : "; in an evaluation that is eval.batch_size";
  return advice_of(shortage, allocator, !helps_launches && shortage.captures,
                   fmt::format("{}a batch of {} instead of {} samples{}",
                               helps_launches ? "leave gpu.capture out, and " : "", samples, batch, how),
                   {.samples = samples});
}

Advice shrink_model(const MemoryShortage& shortage) {
  const int64_t bytes = resident_bytes(shortage);
  if (bytes == 0) return {"a smaller model"};
  return {fmt::format("a model of half the size: what outlives its steps takes {}", size_text(bytes)), bytes / 2};
}

std::string totals_text(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  const MemoryStatistics& now = allocator.statistics();
  std::string text =
      fmt::format("Of {}, {} is allocated, {} is reserved but unallocated, and {} is free",
                  size_text(allocator.limit()), size_text(now.all.allocated_bytes.current),
                  size_text(now.unallocated_bytes()), size_text(allocator.limit() - now.all.reserved_bytes.current));
  if (shortage.requested > allocator.limit()) return text + ".\n";
  return text + fmt::format("; the request takes a segment of {}, since no free block of its pool is larger than {}.\n",
                            size_text(segment_bytes(block_bytes(shortage.requested))),
                            size_text(allocator.largest_free(shortage.requested, shortage.pool)));
}

std::string owners_text(const CachingAllocator& allocator, const OwnerTable& owners) {
  std::vector<OwnerUse> uses = allocator.uses();
  if (uses.empty()) return {};
  std::string text = "\n  The largest of what is allocated:\n\n";
  uses.resize(std::min(uses.size(), kLargest));
  for (const OwnerUse& use : uses)
    text += fmt::format("  {:>12}  {}{}\n", size_text(use.bytes), owners.at(use.owner).to_string(),
                        use.blocks > 1 ? fmt::format(", {} times", use.blocks) : "");
  return text;
}

}  // namespace

Advice first_thing_to_change(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  if (shortage.trace == nullptr) return {"a smaller model"};
  const bool fits_alone = fits(shortage, allocator.limit(), /*captures=*/false);
  if (fits_alone && shortage.captures)
    return {"leave gpu.capture out: captured graphs have memory of their own beside that of launches one by one",
            allocator.pinned_bytes(), true};
  if (fits_alone)
    return {
        "let all steps be of one size (data.drop_last, an eval.batch_size like data.batch_size): there is enough "
        "memory, but in pieces; PyTorch can join them with expandable_segments"};
  std::vector<Advice> all;
  if (shortage.trace->batch_size > 1) all.push_back(smaller_batch(shortage, allocator));
  if (shortage.trace->has_f32_products)
    all.push_back(advice_of(shortage, allocator, shortage.captures, "mixed_precision: bf16", {.narrow = true}));
  all.push_back(shrink_model(shortage));
  return first_that_suffices(all);
}

OutOfMemory out_of_memory(const MemoryShortage& shortage, const CachingAllocator& allocator, const OwnerTable& owners) {
  const MemoryOwner& owner = owners.at(shortage.owner);
  std::string text = fmt::format("out of memory: {} cannot allocate {} for {}\n", shortage.device,
                                 size_text(shortage.requested), owner.name);
  text += totals_text(shortage, allocator) + owners_text(allocator, owners);
  const Advice advice = first_thing_to_change(shortage, allocator);
  text += fmt::format("\nFirst thing to change: {}", advice.text);
  if (advice.saving > 0) text += fmt::format(" (saves about {})", size_text(advice.saving));
  const int64_t least = allocator.statistics().all.reserved_bytes.current +
                        segment_bytes(block_bytes(std::min(shortage.requested, allocator.limit())));
  OutOfMemory error(text, std::max(needed_bytes(shortage, allocator), least), allocator.limit());
  error.locate(owner.line);
  return error;
}

}  // namespace runner::backends::gpu
