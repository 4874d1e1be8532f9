// Hand-written memory traces of an emulated GPU, and access to its modelled memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/exec/backend.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/memory_trace.h"
#include "tests/support/thrown_text.h"

namespace runner::backends::gpu::testing {

// A buffer of a hand-written trace, allocated in step `first` and freed after step `last`; it stays if `last` is at
// least the number of steps.
struct Life {
  int64_t bytes;
  int first, last;
  std::string name = "op";
};

inline MemoryTrace trace_of(const std::vector<Life>& lives, int steps, std::vector<TraceInput> batch = {}) {
  MemoryTrace trace;
  trace.batch = std::move(batch);
  for (const Life& life : lives) {
    const auto line = static_cast<int>(trace.buffers.size()) + 1;
    trace.buffers.push_back({.bytes = life.bytes,
                             .name = life.name,
                             .origin = static_cast<Origin>(line),
                             .line = {"hook.lua", line, 0},
                             .first = life.first,
                             .last = life.last});
  }
  const auto count = static_cast<int32_t>(lives.size());
  for (int step = 0; step < steps; ++step) {
    for (int32_t b = 0; b < count; ++b)
      if (lives[static_cast<size_t>(b)].first == step) trace.events.push_back({b, true});
    for (int32_t b = 0; b < count; ++b)
      if (lives[static_cast<size_t>(b)].last == step) trace.events.push_back({b, false});
  }
  for (int32_t b = 0; b < count; ++b)
    if (lives[static_cast<size_t>(b)].last >= steps) trace.outputs.push_back(b);
  return trace;
}

inline std::vector<Extent> layout_of(const DeviceMemory& memory) {
  std::vector<Extent> layout;
  memory.allocator().copy_layout(layout);
  return layout;
}

// Returns all figures of `statistics` for comparisons.
inline std::vector<int64_t> figures_of(const MemoryStatistics& statistics) {
  std::vector<int64_t> figures{statistics.retries, statistics.ooms};
  for (const auto pool : kPools)
    for (const auto statistic : kStatistics) {
      const Statistic& its = (statistics.*pool).*statistic;
      figures.insert(figures.end(), {its.current, its.peak, its.total});
    }
  return figures;
}

// Allocated blocks as "address+bytes".
inline std::string allocated_text(const DeviceMemory& memory) {
  std::string text;
  for (const Extent& extent : layout_of(memory))
    if (extent.allocated) text += fmt::format("{}+{} ", extent.address, extent.bytes);
  return text;
}

// Returns the text of the OutOfMemory that `call` throws, or "".
inline std::string message_of(const std::function<void()>& call) {
  return support::thrown_text<OutOfMemory>(call);
}

}  // namespace runner::backends::gpu::testing
