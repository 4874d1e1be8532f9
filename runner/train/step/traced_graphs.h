// What a replica's hook has traced since it was last compared with what the others have.
//
// Replicas of a TPU run one graph: where their hooks trace different ones they wait for each other for ever.  Here they
// compare, and name the first node that differs.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/collectives/collectives.h"
#include "backends/graph/program.h"

namespace runner::train {

class TracedGraphs {
 public:
  // For a batch of so many samples.  `program` must stay until compare().
  void add(int64_t batch, const backends::Program& program) { graphs_.push_back({batch, &program}); }

  // Called by all replicas together; forgets.  Of shares with unlike numbers of samples, which a device would pad, the
  // ops are compared and no sizes; what only one replica has behind the graphs of all is not.  Throws Error(kRun).
  void compare(backends::Collectives& ranks, const backends::Site& site);

 private:
  struct Graph {
    int64_t batch;
    const backends::Program* program;
  };
  std::vector<Graph> graphs_;
};

}  // namespace runner::train
