#include "backends/tpu/tpu_step.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "backends/ir/needed.h"
#include "backends/ir/passes/passes.h"

namespace runner::backends::tpu {
namespace {

std::vector<Origin> live_origins(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<Origin> origins;
  for (ValueId id = 0; id < program.size(); ++id)
    if (needed[static_cast<size_t>(id)]) origins.push_back(program.node(id).origin);
  std::ranges::sort(origins);
  return origins;
}

std::vector<Origin> idle_inputs(const Program& program) {
  std::vector<char> taken(static_cast<size_t>(program.size()), 0);
  for (ValueId id = 0; id < program.size(); ++id)
    for (const ValueId operand : program.operands(id)) taken[static_cast<size_t>(operand)] = 1;
  std::vector<Origin> idle;
  for (const Input& input : program.inputs())
    if (taken[static_cast<size_t>(input.value)] == 0) idle.push_back(program.node(input.value).origin);
  return idle;
}

std::vector<Origin> scalars_of(const Program& program) {
  std::vector<Origin> scalars;
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kScalar) scalars.push_back(program.node(input.value).origin);
  return scalars;
}

}  // namespace

TpuStep::TpuStep(const Program& program, const Program& graph)
    : graph_(std::make_shared<const Program>(prune(graph, Keep::kLeadingInputs))),
      states_(states_read(*graph_)),
      origins_(live_origins(*graph_)),
      idle_(idle_inputs(graph)),
      scalars_(scalar_inputs(*graph_, program)),
      given_(given_tensors(program)) {}

std::vector<TpuStep::ScalarInput> TpuStep::scalar_inputs(const Program& graph, const Program& program) {
  const std::vector<Origin> among = scalars_of(program);
  std::vector<ScalarInput> inputs;
  for (const Origin origin : scalars_of(graph)) {
    const auto found = std::ranges::find(among, origin);
    inputs.push_back(
        {origin, found == among.end() ? std::nullopt : std::optional(static_cast<size_t>(found - among.begin()))});
  }
  return inputs;
}

// Whether the graph uses the scalar: an output depends on its node, or it belongs to no Program.
bool TpuStep::takes(const TracedScalar& scalar) const {
  return scalar.origin == kNoOrigin || std::ranges::binary_search(origins_, scalar.origin);
}

bool TpuStep::passes_scalar(const TracedScalar& scalar) const {
  return scalar.origin == kNoOrigin || std::ranges::find(idle_, scalar.origin) == idle_.end();
}

GraphIdentity TpuStep::identity(const SubmissionInfo& info, const ScalarRules& rules) const {
  GraphIdentity identity{.program = graph_};
  std::ranges::copy_if(info.traced, std::back_inserter(identity.scalars),
                       [this](const TracedScalar& scalar) { return takes(scalar); });
  identity.signature = signature_of(identity.scalars, rules);
  std::ranges::set_intersection(info.absent, states_, std::back_inserter(identity.absent));
  return identity;
}

// Scalars that the user's code does not pass itself, such as a declared optimizer's learning rate, count as operands.
std::vector<TracedScalar> TpuStep::scalars(const Submission& submission, const SubmissionInfo& info) const {
  std::vector<TracedScalar> taken;
  for (const ScalarInput& input : scalars_) {
    const auto traced = std::ranges::find(info.traced, input.origin, &TracedScalar::origin);
    if (traced != info.traced.end()) {
      taken.push_back(*traced);
    } else {
      const double value = input.index ? submission.scalars[*input.index] : std::numeric_limits<double>::quiet_NaN();
      taken.push_back({.use = ScalarUse::kOperand, .value = value});
    }
  }
  return taken;
}

}  // namespace runner::backends::tpu
