// Graphs that the hook of one rank has traced since the last comparison with the other ranks.
//
// The ranks of a TPU run one graph; on a real TPU, ranks that trace different graphs deadlock. Here they compare the
// graphs and report the first different node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "backends/tpu/scalar_signature.h"
#include "runner/train/engine/batch_place.h"
#include "runner/train/step/gradients.h"

namespace runner::train {

class TracedGraphs {
 public:
  // `rules`: which scalars are part of a graph.
  explicit TracedGraphs(const backends::tpu::ScalarRules& rules) : rules_(rules) {}

  // Adds a graph for a batch of `batch` samples. Only nodes that `roots` depend on count. `numbers`: scalars passed by
  // the hook. `place`: place of the batch, if known. `of_rank_0`: nodes that only rank 0 has although the hooks trace
  // the same.
  void add(int64_t batch, const std::optional<BatchPlace>& place, std::shared_ptr<const backends::Program> program,
           std::vector<backends::ValueId> roots, std::span<const backends::TracedScalar> numbers,
           std::vector<RankZeroAddition> of_rank_0 = {}) {
    graphs_.push_back(
        {batch, place, std::move(program), std::move(roots), {numbers.begin(), numbers.end()}, std::move(of_rank_0)});
  }

  // Compares the graphs in order and clears them. Collective. Only ranks with equal batch sizes are compared, because a
  // device would pad the others. Graphs that not all ranks have are not compared. Throws Error(kRun) if two differ.
  void compare(backends::ProcessGroup& ranks, const backends::Site& site);

 private:
  struct Graph {
    int64_t batch;
    std::optional<BatchPlace> place;
    std::shared_ptr<const backends::Program> program;
    std::vector<backends::ValueId> roots;
    std::vector<backends::TracedScalar> numbers;
    std::vector<RankZeroAddition> of_rank_0;
  };
  const backends::tpu::ScalarRules rules_;
  std::vector<Graph> graphs_;
};

}  // namespace runner::train
