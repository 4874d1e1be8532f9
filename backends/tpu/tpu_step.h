// What the model of an emulated TPU knows about an Executable: the graph that it is counted as.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/range_check.h"

namespace runner::backends::tpu {

class TpuStep : public ModelStep {
 public:
  // `graph`: what the user's code has traced.
  TpuStep(const Program& program, const Program& graph);

  const std::shared_ptr<const Program>& graph() const { return graph_; }
  const std::vector<GivenTensor>& given() const { return given_; }
  // Returns the graph with the scalars of a submission that it uses and the absent states that it reads.
  GraphIdentity identity(const SubmissionInfo& info, const ScalarRules& rules) const;
  // Whether the user's code passes the scalar: the update rule of a hook may not use the learning rate.
  bool passes_scalar(const TracedScalar& scalar) const;
  // Returns the scalars passed, by kScalar input of the graph; NaN if the value is unknown.
  std::vector<TracedScalar> scalars(const Submission& submission, const SubmissionInfo& info) const;

 private:
  bool takes(const TracedScalar& scalar) const;

  // A kScalar input of the graph. `index`: the matching scalar of the host's Program; none: it has no such input.
  struct ScalarInput {
    Origin origin;
    std::optional<size_t> index;
  };
  static std::vector<ScalarInput> scalar_inputs(const Program& graph, const Program& program);

  const std::shared_ptr<const Program> graph_;
  const std::vector<int32_t> states_;  // states that the graph reads
  const std::vector<Origin> origins_;  // origins of the nodes that outputs depend on, sorted
  const std::vector<Origin> idle_;     // origins of inputs without readers
  const std::vector<ScalarInput> scalars_;
  const std::vector<GivenTensor> given_;
};

}  // namespace runner::backends::tpu
