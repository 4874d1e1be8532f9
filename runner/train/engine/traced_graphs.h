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

// What a graph computes: a step, or a part of one, of `batch` samples. Ranks exchange its bytes, so it has no
// padding.
struct GraphSubject {
  int64_t training = true;  // else evaluation or prediction
  int64_t batch = 0;
  int64_t length = 0;              // as in data::BatchShape
  int64_t counts_samples = false;  // whether the graph leaves padding out of statistics (StepShape::counted)
  bool operator==(const GraphSubject&) const = default;
};

class TracedGraphs {
 public:
  // `rules`: which scalars are part of a graph.
  explicit TracedGraphs(const backends::tpu::ScalarRules& rules) : rules_(rules) {}

  // Adds a graph. Only nodes that `roots` depend on count. `numbers`: scalars passed by the hook. `place`: place of the
  // batch, if known. `of_rank_0`: nodes that only rank 0 has although the hooks trace the same.
  void add(const GraphSubject& subject, const std::optional<BatchPlace>& place,
           std::shared_ptr<const backends::Program> program, std::vector<backends::ValueId> roots,
           std::span<const backends::TracedScalar> numbers, std::vector<RankZeroAddition> of_rank_0 = {}) {
    graphs_.push_back(
        {subject, place, std::move(program), std::move(roots), {numbers.begin(), numbers.end()}, std::move(of_rank_0)});
  }

  // Compares the first graphs of a subject on all ranks, their second graphs and so on, and clears them. Collective.
  // Graphs of different subjects are not compared: a device would pad smaller batches. Ranks may compile different
  // steps in advance, so a graph is compared only with those of the ranks that have it. Throws Error(kRun) if two
  // differ.
  void compare(backends::ProcessGroup& ranks, const backends::Site& site);

 private:
  struct Graph {
    GraphSubject subject;
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
