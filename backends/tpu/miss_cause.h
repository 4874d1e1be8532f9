// Explains why a graph had to be compiled: how it differs from the nearest graph compiled before.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

// Advice on how to compile fewer graphs of a kind, as the end of a sentence; empty if none holds in general.
std::string_view advice_for(MissKind kind);

inline MissCause cause_of_eviction() {
  return {"it was evicted: the cache is full", {}, MissKind::kEvicted};
}

// The nearest graph has the same role and, for reads, the same hook line, and has most in common with `graph`: all but
// scalars; else all but absent states; else the sequence of ops; else the longest common prefix. The first of equally
// near graphs is used. No graph in `others` equals `graph`.
MissCause cause_of_miss(const GraphIdentity& graph, std::span<const GraphIdentity* const> others,
                        const ScalarRules& rules);

}  // namespace runner::backends::tpu
