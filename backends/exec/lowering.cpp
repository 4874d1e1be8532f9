#include "backends/exec/lowering.h"

#include <algorithm>
#include <unordered_map>

namespace runner::backends {
namespace {

class GroupLowering {
 public:
  GroupLowering(const Program& program, const Group& group)
      : program_(program), group_(group), copy_(!is_elementwise(program.node(group.nodes[0]).op)) {
    lowered_.eltwise.shape = program.type(group.nodes[0]).shape;
  }

  LoweredGroup run() {
    for (const ValueId id : group_.nodes)
      for (const ValueId source : sources(id)) add_source(source);
    for (const ValueId id : group_.nodes) add_instruction(id);
    for (const ValueId id : group_.results) lowered_.eltwise.outputs.push_back(register_of(id));
    return std::move(lowered_);
  }

 private:
  // A materialised expand or constant reads itself, like an element-wise node that uses it.
  std::span<const ValueId> sources(ValueId id) const { return copy_ ? std::span(group_.nodes) : program_.operands(id); }

  bool is_inside(ValueId id) const {
    return !copy_ && std::binary_search(group_.nodes.begin(), group_.nodes.end(), id);
  }

  void add_source(ValueId id) {
    if (is_inside(id) || registers_.count(id) > 0) return;
    const Op op = program_.node(id).op;
    registers_[id] = op == Op::kConstant ? ~constant(id) : input(op == Op::kExpand ? program_.operands(id)[0] : id);
  }

  // Returns the index among the constants, adding the constant if it is new.
  int constant(ValueId id) {
    std::vector<double>& all = lowered_.eltwise.constants;
    const double value = program_.constant_value(id);
    const auto same_bits = [value](double other) { return pack_f64(other) == pack_f64(value); };
    const auto at = std::find_if(all.begin(), all.end(), same_bits);
    if (at != all.end()) return static_cast<int>(at - all.begin());
    all.push_back(value);
    return static_cast<int>(all.size()) - 1;
  }

  // Returns the index among the inputs, adding the value if it is new. The group sees it broadcast to its shape.
  int input(ValueId id) {
    const TensorType& type = program_.type(id);
    const Shape& to = lowered_.eltwise.shape;
    EltwiseInput input{.dtype = type.dtype, .strides = {}};
    const auto strides = type.shape.strides();
    const int added = to.rank() - type.shape.rank();
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      if (type.shape[axis] == to[axis + added] && type.shape[axis] != 1)
        input.strides[static_cast<size_t>(axis + added)] = strides[static_cast<size_t>(axis)];
    for (size_t i = 0; i < lowered_.inputs.size(); ++i)
      if (lowered_.inputs[i] == id && lowered_.eltwise.inputs[i].strides == input.strides) return static_cast<int>(i);
    lowered_.inputs.push_back(id);
    lowered_.eltwise.inputs.push_back(input);
    return static_cast<int>(lowered_.inputs.size()) - 1;
  }

  void add_instruction(ValueId id) {
    EltwiseInstruction instruction{.op = copy_ ? Op::kCast : program_.node(id).op, .dtype = program_.type(id).dtype};
    size_t n = 0;
    for (const ValueId source : sources(id)) instruction.sources[n++] = register_of(source);
    const EltwiseGroup& code = lowered_.eltwise;
    registers_[id] = static_cast<int>(code.inputs.size() + code.constants.size() + code.code.size());
    lowered_.eltwise.code.push_back(instruction);
  }

  int16_t register_of(ValueId id) const {
    const int found = registers_.at(id);
    return static_cast<int16_t>(found >= 0 ? found : static_cast<int>(lowered_.inputs.size()) + ~found);
  }

  const Program& program_;
  const Group& group_;
  const bool copy_;
  LoweredGroup lowered_;
  std::unordered_map<ValueId, int> registers_;  // for a constant: the bitwise complement of its index
};

}  // namespace

LoweredGroup lower(const Program& program, const Group& group) {
  return GroupLowering(program, group).run();
}

}  // namespace runner::backends
