#include "backends/tpu/op_split.h"

#include <algorithm>
#include <map>

#include "backends/ir/views.h"

namespace runner::backends::tpu {
namespace {

class OpSplitter {
 public:
  OpSplitter(const Program& from, const std::vector<char>& is_part, TensorInputs tensors, ValueId node)
      : from_(from), is_part_(is_part), tensors_(tensors) {
    op_.node = node;
    op_.program.set_mark(from.mark_of(node));
  }

  SplitOp run() {
    record(op_.node);
    return std::move(op_);
  }

 private:
  ValueId value(ValueId id) {
    if (const auto known = values_.find(id); known != values_.end()) return known->second;
    const ValueId now = is_part_[static_cast<size_t>(id)] ? record(id) : input(id);
    values_.emplace(id, now);
    return now;
  }

  ValueId record(ValueId id) {
    std::vector<ValueId> operands;
    for (const ValueId operand : from_.operands(id)) operands.push_back(value(operand));
    return op_.program.record(from_.node(id).op, operands, from_.attrs(id), from_.type(id));
  }

  ValueId input(ValueId id) {
    op_.operands.push_back(id);
    const Input* const declared = from_.input_of(id);
    if (declared != nullptr && (declared->kind == InputKind::kScalar || tensors_ == TensorInputs::kAsDeclared))
      return op_.program.input(declared->kind, declared->name, from_.type(id));
    return op_.program.input(InputKind::kState, "tensor", from_.type(id));
  }

  const Program& from_;
  const std::vector<char>& is_part_;
  const TensorInputs tensors_;
  SplitOp op_;
  std::map<ValueId, ValueId> values_;
};

}  // namespace

std::vector<char> parts_of_readers(const Program& program) {
  std::vector<char> is_part(static_cast<size_t>(program.size()), 0);
  for (ValueId id = 0; id < program.size(); ++id) is_part[static_cast<size_t>(id)] = is_broadcast(program.node(id).op);
  const auto materialize = [&](ValueId id) {
    if (program.node(id).op == Op::kExpand) is_part[static_cast<size_t>(id)] = 0;
  };
  for (ValueId id = 0; id < program.size(); ++id)
    if (!is_elementwise(program.node(id).op))
      for (const ValueId operand : program.operands(id)) materialize(operand);
  for (const Output& output : program.outputs()) {
    materialize(output.value);
    is_part[static_cast<size_t>(output.value)] = 0;
  }
  return is_part;
}

std::vector<SplitOp> split_into_ops(const Program& program, const std::vector<char>& is_part, TensorInputs tensors) {
  std::vector<SplitOp> ops;
  for (ValueId id = 0; id < program.size(); ++id)
    if (program.node(id).op != Op::kInput && !is_part[static_cast<size_t>(id)])
      ops.push_back(OpSplitter(program, is_part, tensors, id).run());
  return ops;
}

}  // namespace runner::backends::tpu
