// The kernel of a single node, with all operands in memory and without a plan.
#pragma once

#include "backends/exec/plan.h"
#include "backends/ir/views.h"

namespace runner::backends::testing {

// `id`: neither an input nor a constant.
inline Kernel kernel_of_node(const Program& program, ValueId id, const KernelSource& kernels = kFastKernels) {
  const Node& node = program.node(id);
  const std::vector<TensorType> types = operand_types(program, id);
  const KernelRequest request{node.op, types, program.attrs(id), node.type};
  if (is_free(program, id)) return prepare_reference_kernel(request);  // fast kernels exist only for what plans run
  if (!is_elementwise(node.op)) return kernels.node(request);

  EltwiseGroup group{.shape = node.type.shape, .inputs = {}, .constants = {}, .code = {}, .outputs = {}};
  EltwiseInstruction instruction{.op = node.op, .dtype = node.type.dtype};
  for (size_t i = 0; i < types.size(); ++i) {
    group.inputs.push_back({.dtype = types[i].dtype, .strides = types[i].shape.strides()});
    instruction.sources[i] = static_cast<int16_t>(i);
  }
  group.code = {instruction};
  group.outputs = {static_cast<int16_t>(types.size())};
  return kernels.eltwise(group);
}

}  // namespace runner::backends::testing
