// The trace since the last step marker, if step markers are less frequent than batches: one graph of several parts.
//
// Each part is a graph over the same states. In the combined graph a part continues from the states that the previous
// parts have left. Every part has its own batch inputs and scalars. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

class PendingTrace {
 public:
  // `rules`: rules that the parts' signatures were made by.
  explicit PendingTrace(const ScalarRules& rules = {}) : rules_(rules) {}

  bool empty() const { return empty_; }
  int64_t nodes() const { return program_.size(); }

  void add(const GraphIdentity& part);

  // Returns the whole trace and starts an empty one.
  GraphIdentity take();

  // Returns the graph of a read that runs at once: `read` with the part of the trace that it needs. The trace is
  // unchanged.
  GraphIdentity read(GraphIdentity read) const;

 private:
  GraphIdentity identity(Program program) const;

  ScalarRules rules_;
  bool empty_ = true;
  Program program_;              // without outputs for states
  std::vector<ValueId> states_;  // values of the states after the last part
  std::vector<char> written_;    // by state
  std::vector<TracedScalar> scalars_;
  std::vector<int32_t> absent_;
};

}  // namespace runner::backends::tpu
