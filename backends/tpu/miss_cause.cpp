#include "backends/tpu/miss_cause.h"

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "backends/exec/backend.h"
#include "backends/ir/print.h"
#include "backends/tpu/owners.h"
#include "backends/tpu/scalar_signature.h"

namespace runner::backends::tpu {
namespace {

// How much two graphs have in common, most important member first.
struct Nearness {
  bool structure, ops;
  ValueId beginning;
  bool states;

  bool operator<(const Nearness& other) const {
    return std::tie(structure, ops, beginning, states) <
           std::tie(other.structure, other.ops, other.beginning, other.states);
  }
};

Nearness nearness(const GraphIdentity& a, const GraphIdentity& b) {
  const Program &x = *a.program, &y = *b.program;
  return {x.same_structure(y), same_ops(x, y), first_difference(x, y), a.absent == b.absent};
}

const SourceMark& line_of_read(const Program& graph) {
  return graph.mark_of(graph.outputs()[0].value);
}

// The input that a read returns as it is; null if the read computes a value.
const Input* input_of_read(const Program& graph) {
  return graph.input_of(graph.outputs()[0].value);
}

// Reads of inputs have no line of their own.
bool is_same_read(const Program& a, const Program& b) {
  const Input *const x = input_of_read(a), *const y = input_of_read(b);
  if (x != nullptr || y != nullptr) return x != nullptr && y != nullptr && x->name == y->name;
  return line_of_read(a).to_string() == line_of_read(b).to_string();
}

bool is_comparable(const GraphIdentity& a, const GraphIdentity& b) {
  const GraphRole role = role_of(*a.program);
  if (role != role_of(*b.program)) return false;
  return role != GraphRole::kRead || (a.evaluates == b.evaluates && is_same_read(*a.program, *b.program));
}

std::string name_of_state(const Program& program, int32_t state) {
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kState && state-- == 0) return input.name;
  return "";
}

std::string state_cause(const GraphIdentity& before, const GraphIdentity& now) {
  if (now.absent.size() < before.absent.size())
    return fmt::format("{} exists since the previous step and is an input now; the first step creates it as zeros",
                       name_of_state(*now.program, before.absent.front()));
  return fmt::format("{} does not exist yet, so the graph creates it as zeros",
                     name_of_state(*now.program, now.absent.front()));
}

// Whether the same input of the batch has another number of samples. A tensor that a hook makes from a list is an input
// too, but has a line.
bool is_other_batch_size(const Program& before, const Program& now, ValueId id) {
  const Input *const was = before.input_of(id), *const is = now.input_of(id);
  if (was == nullptr || is == nullptr || is->kind != InputKind::kBatch || was->name != is->name) return false;
  const Shape &a = before.type(id).shape, &b = now.type(id).shape;
  const bool differs_in_samples = a.rank() == b.rank() && a.rank() > 0 && a[0] != b[0] &&
                                  std::ranges::equal(a.dims().subspan(1), b.dims().subspan(1));
  return differs_in_samples && before.type(id).dtype == now.type(id).dtype && !now.mark_of(id).known();
}

std::string root_text(const Program& program) {
  return fmt::format("{} of {} nodes", program.outputs().size(), program.size());
}

const TracedScalar* number_at(const GraphIdentity& graph, ValueId id) {
  const auto found = std::ranges::find(graph.scalars, graph.program->node(id).origin, &TracedScalar::origin);
  return found == graph.scalars.end() ? nullptr : &*found;
}

// Difference between two scalars of which one may be baked: that is a different kind of node.
Difference number_difference(const TracedScalar* before, const TracedScalar* now, const ScalarRules& rules) {
  if (before == nullptr || now == nullptr) return {};
  return difference(std::span(before, 1), std::span(now, 1), rules);
}

MissKind kind_of(const Difference& difference) {
  return difference.is_attribute ? MissKind::kAttribute : MissKind::kNumber;
}

MissCause scalar_cause(const GraphIdentity& before, const GraphIdentity& now, const ScalarRules& rules) {
  Difference found = difference(before.scalars, now.scalars, rules);
  if (found.text.empty()) return {"only the engine's part of the step is new", {}, MissKind::kNumber};
  const Origin origin = found.scalar < now.scalars.size() ? now.scalars[found.scalar].origin : kNoOrigin;
  const SourceLines& lines = now.program->lines();
  return {std::move(found.text), lines.has(origin) ? lines.at(origin) : SourceMark{}, kind_of(found)};
}

std::string batches_text(int64_t batches) {
  return fmt::format("{} batch{}", batches, batches == 1 ? "" : "es");
}

// `same`: whether the ops are the same.
MissCause structure_cause(const GraphIdentity& before, const GraphIdentity& now, bool same, const ScalarRules& rules) {
  if (before.batches != now.batches)
    return {fmt::format("it contains {}, the most similar graph {}", batches_text(now.batches), before.batches), {}};
  const ValueId differs = first_difference(*before.program, *now.program);
  const bool within = differs < std::min(before.program->size(), now.program->size());
  const Difference number =
      within ? number_difference(number_at(before, differs), number_at(now, differs), rules) : Difference{};
  if (!number.text.empty()) return {number.text, now.program->mark_of(differs), kind_of(number)};
  if (within)
    return {node_difference(*before.program, *now.program, differs), now.program->mark_of(differs),
            same && is_other_batch_size(*before.program, *now.program, differs) ? MissKind::kBatchSize
                                                                                : MissKind::kStructure};
  if (differs < now.program->size())
    return {fmt::format("it has the nodes of the most similar graph, followed by {}", node_text(*now.program, differs)),
            now.program->mark_of(differs)};
  return {fmt::format("the outputs changed from {1} to {0}", root_text(*now.program), root_text(*before.program)), {}};
}

// Cause for the first graph of its role.
MissCause first_cause(const GraphIdentity& identity) {
  const Program& graph = *identity.program;
  const char* const where = identity.evaluates ? " in an evaluation" : "";
  switch (role_of(graph)) {
    case GraphRole::kUpdate: return {"the first graph that updates parameters or gradients", {}, MissKind::kFirst};
    case GraphRole::kForward: return {"the first graph of an evaluation: it updates no state", {}, MissKind::kFirst};
    case GraphRole::kRead: break;
  }
  if (const Input* const input = input_of_read(graph))
    return {fmt::format("the first read of the input \"{}\"{}", input->name, where), {}, MissKind::kFirst};
  return {fmt::format("the first read of a value at this line{}", where), line_of_read(graph), MissKind::kFirst};
}

}  // namespace

std::string_view advice_for(const Graph& graph, const ShortBatches& short_batches) {
  switch (graph.cause.kind) {
    case MissKind::kBatchSize:
      if (is_of_evaluation(graph) ? short_batches.filled_in_evaluations : short_batches.dropped_in_training)
        return same_shapes_advice(short_batches);
      if (!is_of_evaluation(graph)) return "set data.drop_last: true to drop the short batch of an epoch";
      return "set eval.pad_last: true to fill up the short batch of an evaluation, or eval.drop_last: true to drop it";
    case MissKind::kNumber:
      return "avoid the values 0, 1 and -1, and equal numbers; tpu.dialect: clean shows the run without this rule";
    case MissKind::kAttribute:
      return "each exponent p of x ^ p is a separate graph; (p * x:log()):exp() takes p as an input";
    case MissKind::kFirst:
    case MissKind::kState:
    case MissKind::kStructure:
    case MissKind::kEvicted:
    case MissKind::kStored: break;
  }
  return "";
}

MissCause cause_of_miss(const GraphIdentity& graph, std::span<const GraphIdentity* const> others,
                        const ScalarRules& rules) {
  const GraphIdentity* nearest = nullptr;
  std::optional<Nearness> best;
  for (const GraphIdentity* const other : others) {
    if (!is_comparable(graph, *other)) continue;
    const Nearness near = nearness(graph, *other);
    if (best && !(*best < near)) continue;
    best = near;
    nearest = other;
  }
  if (others.empty()) return {"the first graph", {}, MissKind::kFirst};
  if (nearest == nullptr) return first_cause(graph);
  if (!best->structure) return structure_cause(*nearest, graph, best->ops, rules);
  if (!best->states) return {state_cause(*nearest, graph), {}, MissKind::kState};
  return scalar_cause(*nearest, graph, rules);
}

// Evaluations update bookkeeping as well.
GraphRole role_of(const Program& graph) {
  const auto outputs = graph.outputs();
  if (outputs.size() == 1 && outputs[0].is_read) return GraphRole::kRead;
  const bool updates = std::ranges::any_of(outputs, [&](const Output& output) {
    return output.state >= 0 && !is_bookkeeping_state(graph.type(output.value));
  });
  return updates ? GraphRole::kUpdate : GraphRole::kForward;
}

}  // namespace runner::backends::tpu
