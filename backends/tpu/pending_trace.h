// What has been traced since the last cut, where a cut comes more seldom than a batch: one graph of all of it.
//
// Each part is a graph on the same states.  In the whole a part goes on from the states that the parts before it have
// left; every part has batch inputs and numbers of its own.  Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

class PendingTrace {
 public:
  // `rules`: by which the signatures of its parts were made.
  explicit PendingTrace(const ScalarRules& rules = {}) : rules_(rules) {}

  bool empty() const { return empty_; }
  int64_t nodes() const { return program_.size(); }

  void add(const GraphIdentity& part);

  // All of it; what follows begins anew.
  GraphIdentity take();

  // A graph that is traced behind it and run at once, with what it needs of it; this one goes on.
  GraphIdentity read(GraphIdentity read) const;

 private:
  GraphIdentity identity(Program program) const;

  ScalarRules rules_;
  bool empty_ = true;
  Program program_;              // without those of its outputs that are states
  std::vector<ValueId> states_;  // as the parts have left them
  std::vector<char> written_;    // by state
  std::vector<TracedScalar> scalars_;
  std::vector<int32_t> absent_;
};

}  // namespace runner::backends::tpu
