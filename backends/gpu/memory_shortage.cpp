#include "backends/gpu/memory_shortage.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/memory_model.h"
#include "backends/gpu/torch_size_text.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::gpu {
namespace {

constexpr size_t kLargest = 5;

int64_t block_bytes_of(const std::vector<int64_t>& arrays) {
  int64_t bytes = 0;
  for (const int64_t array : arrays) bytes += block_bytes(array);
  return bytes;
}

// Whether a smaller batch would keep gradients between micro-batches, as in training.
bool keeps_gradients(const MemoryShortage& shortage, const TraceScale& scale) {
  return scale.samples > 0 && shortage.trace->writes_states;
}

bool has_other_steps(const MemoryShortage& shortage) {
  return shortage.steps != nullptr && shortage.steps->size() > 1;
}

// Bytes that must be allocated at once, ignoring fragmentation.
int64_t needed_bytes(const MemoryShortage& shortage, const CachingAllocator& allocator, const TraceScale& scale = {}) {
  if (shortage.trace == nullptr)
    return allocator.statistics().all.allocated_bytes.current + block_bytes(shortage.requested);
  return block_bytes_of(shortage.arrays) + block_bytes_of(shortage.staged) +
         peak_bytes(scaled(*shortage.trace, scale)) +
         (keeps_gradients(shortage, scale) ? block_bytes_of(shortage.spec->for_parts) : 0);
}

// Whether the arrays and the step fit into an empty allocator, together with the next batch if it is a training step.
bool fits(const MemoryShortage& shortage, int64_t limit, bool captures, const TraceScale& scale = {}) {
  MemoryModel memory(limit);
  const auto holds = [&memory](const std::vector<int64_t>& blocks, PoolId pool) {
    return std::ranges::all_of(blocks,
                               [&](int64_t bytes) { return memory.allocator().allocate(bytes, pool, 0) != kNoBlock; });
  };
  if (!holds(shortage.arrays, kStreamPools.compute) || !holds(shortage.staged, kStreamPools.copy_in)) return false;
  if (shortage.trace == nullptr) return true;
  if (keeps_gradients(shortage, scale) && !holds(shortage.spec->for_parts, kStreamPools.compute)) return false;
  const MemoryTrace trace = scaled(*shortage.trace, scale);
  StepAllocations step(trace, memory.owners());
  const std::vector<int64_t> bytes = batch_bytes(trace);
  for (int64_t run = 0; run < runs_until_steady(captures); ++run) {
    const StepPools pools = pools_of_run(run, captures);
    const auto staged = static_cast<uint64_t>(run);
    if (memory.run(step, {.pools = pools, .staged = staged})) return false;
    if (trace.writes_states && memory.stage(staged + 1, step, bytes, pools.copy_in)) return false;
  }
  return true;
}

Advice advice_of(const MemoryShortage& shortage, const CachingAllocator& allocator, bool captures, std::string text,
                 const TraceScale& scale) {
  const bool suffices = fits(shortage, shortage.spec->limit, captures, scale);
  return {text + (suffices ? "" : "; this alone is not enough"),
          needed_bytes(shortage, allocator) - needed_bytes(shortage, allocator, scale), suffices};
}

// Text on how training reaches the same batch size with micro-batches of `samples` samples.
std::string parts_text(const MemoryShortage& shortage, int64_t samples) {
  const std::vector<int64_t>& gradients = shortage.spec->for_parts;
  return fmt::format(
      "; with gradient_accumulation_steps {} times as large, which train.auto_batch_size sets unless the hook has its "
      "own loop{}",
      ceil_div(shortage.trace->batch_size, samples),
      gradients.empty()
          ? ""
          : fmt::format(", {} of gradients are kept between batches", torch_size_text(block_bytes_of(gradients))));
}

// Halves the batch until everything fits without capture, down to one sample.
Advice smaller_batch(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  const auto with = [&](int64_t samples, bool captures) {
    return fits(shortage, shortage.spec->limit, captures, {.samples = samples});
  };
  const int64_t batch = shortage.trace->batch_size;
  int64_t samples = ceil_div<int64_t>(batch, 2);
  while (samples > 1 && !with(samples, /*captures=*/false)) samples = ceil_div<int64_t>(samples, 2);
  const bool captures = shortage.spec->captures;
  const bool helps_launches = captures && with(samples, /*captures=*/false) && !with(samples, true);
  return advice_of(
      shortage, allocator, !helps_launches && captures,
      fmt::format(
          "{}a batch of {} instead of {} samples{}", helps_launches ? "disable gpu.capture, and use " : "", samples,
          batch, shortage.trace->writes_states ? parts_text(shortage, samples) : " (in an evaluation eval.batch_size)"),
      {.samples = samples});
}

Advice shrink_model(const MemoryShortage& shortage) {
  const int64_t bytes = block_bytes_of(shortage.arrays);
  if (bytes == 0) return {"a smaller model"};
  return {fmt::format("a model of half the size: its persistent arrays need {}", torch_size_text(bytes)), bytes / 2};
}

std::string_view subject_text(const MemoryShortage& shortage) {
  if (shortage.trace == nullptr) return "The arrays alone";
  if (shortage.are_all_steps) return "The training";
  return has_other_steps(shortage) ? "This step and those before it" : "This step";
}

std::string more_memory_text(const MemoryShortage& shortage) {
  const std::optional<int64_t> bytes = memory_that_suffices(shortage);
  if (!bytes) return {};
  const GpuDataSheet* const model = smallest_gpu_with(*bytes);
  return fmt::format("\n{} would fit in {}, and {}{}", subject_text(shortage), torch_size_text(*bytes),
                     model != nullptr ? fmt::format("the smallest gpu.model with this much memory is {}", model->name)
                                      : "no gpu.model has this much memory",
                     shortage.are_all_steps ? "" : "; `runner estimate` prints the memory of all steps");
}

std::string totals_text(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  const MemoryStatistics& now = allocator.statistics();
  std::string text = fmt::format(
      "Of {}, {} is allocated, {} is reserved but unallocated, and {} is free", torch_size_text(shortage.spec->limit),
      torch_size_text(now.all.allocated_bytes.current), torch_size_text(now.unallocated_bytes()),
      torch_size_text(shortage.spec->limit - now.all.reserved_bytes.current));
  if (shortage.requested > shortage.spec->limit) return text + ".\n";
  return text + fmt::format(
                    "; the request needs a new segment of {}, because the largest free block that it can use has {}.\n",
                    torch_size_text(segment_bytes(block_bytes(shortage.requested))),
                    torch_size_text(allocator.largest_free(shortage.requested, shortage.pool)));
}

std::string owners_text(const CachingAllocator& allocator, const OwnerTable& owners) {
  std::vector<OwnerUse> uses = allocator.uses();
  if (uses.empty()) return {};
  std::string text = "\n  Largest allocations:\n\n";
  uses.resize(std::min(uses.size(), kLargest));
  for (const OwnerUse& use : uses)
    text += fmt::format("  {:>12}  {}{}\n", torch_size_text(use.bytes), owners.at(use.owner).to_string(),
                        use.blocks > 1 ? fmt::format(", {} times", use.blocks) : "");
  return text;
}

}  // namespace

Advice first_thing_to_change(const MemoryShortage& shortage, const CachingAllocator& allocator) {
  if (shortage.trace == nullptr) return shrink_model(shortage);
  const bool captures = shortage.spec->captures;
  const bool fits_alone = fits(shortage, shortage.spec->limit, /*captures=*/false);
  if (fits_alone && captures)
    return {"disable gpu.capture: captured graphs need memory in addition to that of eager launches",
            allocator.pinned_bytes(), true};
  if (fits_alone)
    return {
        "use the same batch size for all steps (data.drop_last, eval.batch_size equal to data.batch_size): there is "
        "enough memory, but it is fragmented; PyTorch can avoid this with expandable_segments"};
  std::vector<Advice> all;
  if (shortage.trace->batch_size > 1) all.push_back(smaller_batch(shortage, allocator));
  if (shortage.trace->has_f32_products)
    all.push_back(advice_of(shortage, allocator, captures, "mixed_precision: bf16", {.narrow = true}));
  all.push_back(shrink_model(shortage));
  return first_that_suffices(all);
}

std::optional<int64_t> memory_that_suffices(const MemoryShortage& shortage) {
  constexpr int64_t kMaxBytes = int64_t{1} << 50;
  const int64_t limit = shortage.spec->limit, segment = segment_bytes(1);
  const bool captures = shortage.spec->captures;
  const auto holds_it = [&](int64_t bytes) {
    return fits(shortage, bytes, captures) &&
           (!has_other_steps(shortage) || fits_training(shortage.arrays, *shortage.steps, bytes, captures));
  };
  if (shortage.arrays.empty() || holds_it(limit)) return std::nullopt;
  int64_t too_few = limit / segment, enough = too_few + 1;
  while (!holds_it(enough * segment)) {
    if (enough * segment > kMaxBytes) return std::nullopt;
    too_few = std::exchange(enough, 2 * enough);
  }
  while (enough - too_few > 1) {
    const int64_t middle = (too_few + enough) / 2;
    (holds_it(middle * segment) ? enough : too_few) = middle;
  }
  return enough * segment;
}

OutOfMemory out_of_memory(const MemoryShortage& shortage, const CachingAllocator& allocator, const OwnerTable& owners) {
  const MemoryOwner& owner = owners.at(shortage.owner);
  std::string text = fmt::format("out of memory: {} cannot allocate {} for {}\n", shortage.spec->device,
                                 torch_size_text(shortage.requested), owner.name);
  text += totals_text(shortage, allocator) + owners_text(allocator, owners);
  const Advice advice = first_thing_to_change(shortage, allocator);
  text += fmt::format("\nFirst thing to change: {}", advice.text);
  if (advice.saving > 0) text += fmt::format(" (saves about {})", torch_size_text(advice.saving));
  text += more_memory_text(shortage);
  const int64_t least = allocator.statistics().all.reserved_bytes.current +
                        segment_bytes(block_bytes(std::min(shortage.requested, shortage.spec->limit)));
  OutOfMemory error(text, std::max(needed_bytes(shortage, allocator), least), shortage.spec->limit);
  error.locate(owner.line);
  return error;
}

}  // namespace runner::backends::gpu
