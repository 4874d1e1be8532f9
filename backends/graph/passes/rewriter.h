// What every pass is made of: a walk over one Program that writes another.
#pragma once

#include <vector>

#include "backends/graph/program.h"

namespace runner::backends {

class Rewriter {
 public:
  explicit Rewriter(const Program& from) : from_(from), map_(static_cast<size_t>(from.size()), kNoValue) {}

  const Program& from() const { return from_; }
  Program& to() { return to_; }

  // Where a value of the old Program stands in the new one.
  ValueId mapped(ValueId old) const { return map_[static_cast<size_t>(old)]; }
  void map(ValueId old, ValueId now) { map_[static_cast<size_t>(old)] = now; }
  std::vector<ValueId> mapped_operands(ValueId old) const {
    std::vector<ValueId> operands;
    for (const ValueId operand : from_.operands(old)) operands.push_back(mapped(operand));
    return operands;
  }

  // Makes new nodes carry the source line of an old one.
  void mark_as(ValueId old) { to_.set_mark(from_.mark_of(old)); }

  // Writes the old node anew with its operands mapped, and maps it.
  ValueId copy(ValueId old) {
    mark_as(old);
    const Node& node = from_.node(old);
    ValueId now = kNoValue;
    if (node.op == Op::kInput) {
      const Input& input = from_.inputs()[static_cast<size_t>(from_.attrs(old)[1])];
      now = to_.input(input.kind, input.name, node.type);
    } else {
      now = to_.record(node.op, mapped_operands(old), from_.attrs(old), node.type);
    }
    map(old, now);
    return now;
  }

  Program finish() {
    for (const Output& output : from_.outputs()) to_.output(output.name, mapped(output.value), output.state);
    return std::move(to_);
  }

 private:
  const Program& from_;
  Program to_;
  std::vector<ValueId> map_;
};

}  // namespace runner::backends
