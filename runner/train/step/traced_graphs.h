// What a replica's hook has traced since it was last compared with what the others have.
//
// Replicas of a TPU run one graph: where their hooks trace different ones they wait for each other for ever.  Here they
// compare, and name the first node that differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/collectives/collectives.h"
#include "backends/graph/traced_scalar.h"

namespace runner::train {

class TracedGraphs {
 public:
  // For a batch of so many samples, with the numbers that the hook has handed over.  `program` must stay until
  // compare().
  void add(int64_t batch, const backends::Program& program, std::span<const backends::TracedScalar> numbers);

  // Called by all replicas together; forgets.  Of shares with unlike numbers of samples, which a device would pad, the
  // ops are compared and no sizes; what only one replica has behind the graphs of all is not.  Throws Error(kRun).
  void compare(backends::Collectives& ranks, const backends::Site& site);

 private:
  // What of a number is a part of the graph.
  struct Number {
    backends::Origin origin;
    int64_t words[2];
  };
  struct Graph {
    int64_t batch;
    const backends::Program* program;
    std::vector<Number> numbers;
  };
  static uint64_t digest_of(const std::vector<Number>& numbers);
  static std::string packed_nodes(const Graph& graph, bool with_sizes);

  std::vector<Graph> graphs_;
};

}  // namespace runner::train
