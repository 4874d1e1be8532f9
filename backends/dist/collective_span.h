// The span of a collective call, for the profiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/dist/process_group.h"
#include "backends/runtime/spans.h"

namespace runner::backends {

inline ScopedSpan collective_span(std::string_view call, size_t bytes, const Site& site) {
  return {SpanKind::kCollective, call, {.bytes = static_cast<int64_t>(bytes), .what = site.what}};
}

}  // namespace runner::backends
