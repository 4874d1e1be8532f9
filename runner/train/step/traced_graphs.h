// What a replica's hook has traced since it was last compared with what the others have.
//
// Replicas of a TPU run one graph: where their hooks trace different ones they wait for each other for ever.  Here they
// compare, and name the first node that differs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/collectives/collectives.h"
#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "backends/tpu/scalar_signature.h"
#include "runner/train/step/batch_place.h"
#include "runner/train/step/gradients.h"

namespace runner::train {

class TracedGraphs {
 public:
  // `rules`: which numbers are part of a graph.
  explicit TracedGraphs(const backends::tpu::ScalarRules& rules) : rules_(rules) {}

  // For a batch of so many samples, with the numbers that the hook has handed over; what `roots` are computed from
  // counts.  `place`: of the batch, where it is known.  `of_rank_0`: what this replica computes as rank 0, where its
  // hook has traced nothing else than others'.
  void add(int64_t batch, const std::optional<BatchPlace>& place, std::shared_ptr<const backends::Program> program,
           std::vector<backends::ValueId> roots, std::span<const backends::TracedScalar> numbers,
           std::vector<OfRank0> of_rank_0 = {}) {
    graphs_.push_back(
        {batch, place, std::move(program), std::move(roots), {numbers.begin(), numbers.end()}, std::move(of_rank_0)});
  }

  // Called by all replicas together; forgets.  Compares replicas whose shares have as many samples, graph by graph;
  // others a device would pad.  What only one has behind the graphs of all is not compared.  Throws Error(kRun).
  void compare(backends::Collectives& ranks, const backends::Site& site);

 private:
  struct Graph {
    int64_t batch;
    std::optional<BatchPlace> place;
    std::shared_ptr<const backends::Program> program;
    std::vector<backends::ValueId> roots;
    std::vector<backends::TracedScalar> numbers;
    std::vector<OfRank0> of_rank_0;
  };
  const backends::tpu::ScalarRules rules_;
  std::vector<Graph> graphs_;
};

}  // namespace runner::train
