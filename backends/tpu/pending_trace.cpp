#include "backends/tpu/pending_trace.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/ir/needed.h"
#include "backends/ir/passes/passes.h"

namespace runner::backends::tpu {
namespace {

// Appends the nodes of `part` to `to`. `states`: current values of the states; missing ones become inputs. Returns the
// new value of each value of `part`.
std::vector<ValueId> append(Program& to, const Program& part, std::vector<ValueId>& states) {
  std::vector<ValueId> values(static_cast<size_t>(part.size()), kNoValue);
  size_t input = 0, state = 0;
  for (ValueId id = 0; id < part.size(); ++id) {
    const Node& node = part.node(id);
    ValueId& now = values[static_cast<size_t>(id)];
    to.set_mark(part.mark_of(id));
    if (node.op != Op::kInput) {
      std::vector<ValueId> operands;
      for (const ValueId operand : part.operands(id)) operands.push_back(values[static_cast<size_t>(operand)]);
      now = to.record(node.op, operands, part.attrs(id), node.type);
      continue;
    }
    const Input& declared = part.inputs()[input++];
    const bool is_state = declared.kind == InputKind::kState;
    if (!is_state || state == states.size()) now = to.input(declared.kind, declared.name, node.type);
    if (is_state && state == states.size()) states.push_back(now);
    if (is_state) now = states[state++];
  }
  return values;
}

}  // namespace

void PendingTrace::add(const GraphIdentity& part) {
  const Program& program = *part.program;
  for (const int32_t state : part.absent)
    if (static_cast<size_t>(state) >= written_.size() || !written_[static_cast<size_t>(state)])
      if (std::ranges::find(absent_, state) == absent_.end()) absent_.push_back(state);
  const std::vector<ValueId> values = append(program_, program, states_);
  written_.resize(states_.size());
  for (Output output : program.outputs()) {
    output.value = values[static_cast<size_t>(output.value)];
    if (output.state < 0) {
      program_.output(std::move(output));
    } else {
      states_[static_cast<size_t>(output.state)] = output.value;
      written_[static_cast<size_t>(output.state)] = 1;
    }
  }
  std::map<Origin, Origin> moved;
  for (ValueId id = 0; id < program.size(); ++id)
    moved.try_emplace(program.node(id).origin, program_.node(values[static_cast<size_t>(id)]).origin);
  for (TracedScalar scalar : part.scalars) {
    if (scalar.origin != kNoOrigin) scalar.origin = moved.at(scalar.origin);
    scalars_.push_back(scalar);
  }
  empty_ = false;
}

GraphIdentity PendingTrace::identity(Program program) const {
  GraphIdentity identity{std::make_shared<const Program>(std::move(program)), scalars_, signature_of(scalars_, rules_),
                         absent_};
  std::ranges::sort(identity.absent);
  return identity;
}

GraphIdentity PendingTrace::take() {
  for (size_t state = 0; state < states_.size(); ++state)
    if (written_[state]) program_.output("state", states_[state], static_cast<int32_t>(state));
  GraphIdentity whole = identity(std::move(program_));
  *this = PendingTrace(rules_);
  return whole;
}

GraphIdentity PendingTrace::read(GraphIdentity read) const {
  if (empty()) return read;
  const std::vector<int32_t> needed = states_read(*read.program);
  const auto is_pending = [&](int32_t state) {
    return static_cast<size_t>(state) < written_.size() && written_[static_cast<size_t>(state)] != 0;
  };
  if (std::ranges::none_of(needed, is_pending)) return read;
  PendingTrace whole = *this;
  whole.program_ = program_.without_outputs();
  whole.written_.assign(written_.size(), 0);
  whole.add(read);
  return whole.identity(dce(whole.program_));
}

}  // namespace runner::backends::tpu
