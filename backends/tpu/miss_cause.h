// Why a graph had to be compiled: how it differs from the nearest one that had been.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

struct MissCause {
  std::string text;
  SourceMark line;  // of the hook, where a node of it is what differs
  MissKind kind = MissKind::kStructure;
};

// What makes fewer graphs of a kind, in words that end a sentence; empty: nothing that holds for all of them.
std::string_view advice_for(MissKind kind);

inline MissCause cause_of_forgotten() {
  return {"it had been forgotten: the cache is full", {}, MissKind::kForgotten};
}

// The nearest of `others` is of the same role, of reads one of the same line of the hook, and shares most with it:
// everything but numbers, then everything but states that did not exist, then the order of ops, and else the longest
// beginning; of two equally near ones it is the first.  None is the same.
MissCause cause_of_miss(const GraphIdentity& graph, std::span<const GraphIdentity* const> others,
                        const ScalarRules& rules);

}  // namespace runner::backends::tpu
