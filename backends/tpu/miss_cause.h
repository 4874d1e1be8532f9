// Explains why a graph had to be compiled: how it differs from the nearest graph compiled before.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "backends/ir/program.h"
#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

GraphRole role_of(const Program& graph);

// Whether a graph computes or reads a batch of an evaluation.
inline bool is_of_evaluation(const Graph& graph) {
  return graph.role == GraphRole::kForward || (graph.role == GraphRole::kRead && graph.evaluates);
}

// Advice for graphs that differ in shapes or operations.
inline std::string_view same_shapes_advice(const ShortBatches& short_batches) {
  return short_batches.lengths_differ ? "data.tokens.padding: longest makes batches as long as their longest text; set "
                                        "max_length, or bucket for a few lengths"
                                      : "use the same shapes in every batch (nn.where or a mask in place of slices)";
}

// Advice on how to compile fewer graphs like this one, as the end of a sentence; empty if none holds in general.
std::string_view advice_for(const Graph& graph, const ShortBatches& short_batches);

inline MissCause cause_of_eviction() {
  return {"it was evicted: the cache is full", {}, MissKind::kEvicted};
}

// The nearest graph has the same role and, for reads, the same hook line or the same input, both in training or both in
// an evaluation, and has most in common with `graph`: all but scalars; else all but absent states; else the sequence of
// ops; else the longest common prefix. The first of equally near graphs is used. No graph in `others` equals `graph`.
MissCause cause_of_miss(const GraphIdentity& graph, std::span<const GraphIdentity* const> others,
                        const ScalarRules& rules);

// Describes a scalar that is part of an operation: "lr 0 is 0; the numbers 0, 1 and -1 are constants of the graph".
// Empty if there is none.
struct BakedText {
  std::string text = {};
  bool is_attribute = false;  // is part of it whatever its value
};

// Explains why an operation that runs alone had to be compiled: how it differs from the newest of its kind.
MissCause cause_of_op(const GraphIdentity& identity, const BakedText& number, const std::deque<Graph>& compiled);

}  // namespace runner::backends::tpu
