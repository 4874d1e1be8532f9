// Base of every pass: a walk over one Program that writes another.
#pragma once

#include <utility>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

class Rewriter {
 public:
  explicit Rewriter(const Program& from)
      : from_(from), to_(Program::like(from)), map_(static_cast<size_t>(from.size()), kNoValue) {}

  const Program& from() const { return from_; }
  Program& to() { return to_; }

  // The value of the new Program that replaces an old one; kNoValue: none yet.
  ValueId mapped(ValueId old) const { return map_[static_cast<size_t>(old)]; }
  void map(ValueId old, ValueId now) { map_[static_cast<size_t>(old)] = now; }
  std::vector<ValueId> mapped_operands(ValueId old) const {
    std::vector<ValueId> operands;
    for (const ValueId operand : from_.operands(old)) operands.push_back(mapped(operand));
    return operands;
  }

  // Nodes recorded until the next call get the origin of this node.
  void make_from(ValueId old) { to_.set_origin(from_.node(old).origin); }

  // Records the old node with mapped operands, and maps it to the result.
  ValueId copy(ValueId old) {
    make_from(old);
    const Node& node = from_.node(old);
    ValueId now = kNoValue;
    if (const Input* const input = from_.input_of(old)) {
      now = to_.input(input->kind, input->name, node.type, input->rounded_of);
    } else {
      now = to_.record(node.op, mapped_operands(old), from_.attrs(old), node.type);
    }
    map(old, now);
    return now;
  }

  // Returns the new Program with the outputs of the old one.
  Program finish() {
    for (Output output : from_.outputs()) {
      output.value = mapped(output.value);
      to_.output(std::move(output));
    }
    return finish_without_outputs();
  }
  Program finish_without_outputs() {
    to_.set_origin(std::nullopt);
    return std::move(to_);
  }

 private:
  const Program& from_;
  Program to_;
  std::vector<ValueId> map_;
};

}  // namespace runner::backends
