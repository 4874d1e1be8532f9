// Element-wise groups: the collapsed space, the text, and the choice between compiled loops and the interpreter.

#include "backends/kernels/eltwise.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/kernels/eltwise_kernels.h"
#include "backends/kernels/isa/loops.h"
#include "backends/runtime/debug.h"

namespace runner::backends {

CollapsedSpace collapse(const EltwiseGroup& group) {
  CollapsedSpace space;
  space.strides.resize(group.inputs.size());
  int rank = 0;
  for (int axis = 0; axis < group.shape.rank(); ++axis) {
    const int64_t dim = group.shape[axis];
    if (dim == 1) continue;
    const auto merges = [&](size_t k) {
      return space.strides[k][static_cast<size_t>(rank - 1)] ==
             group.inputs[k].strides[static_cast<size_t>(axis)] * dim;
    };
    bool merge = rank > 0;
    for (size_t k = 0; merge && k < group.inputs.size(); ++k) merge = merges(k);
    if (!merge) ++rank;
    const auto at = static_cast<size_t>(rank - 1);
    space.dims[at] = merge ? space.dims[at] * dim : dim;
    for (size_t k = 0; k < group.inputs.size(); ++k)
      space.strides[k][at] = group.inputs[k].strides[static_cast<size_t>(axis)];
  }
  if (rank == 0) {  // one element: every input counts as contiguous
    space.dims[0] = 1;
    for (auto& strides : space.strides) strides[0] = 1;
  }
  space.rank = std::max(rank, 1);
  return space;
}

bool same_compute_type(DType a, DType b) {
  return compute_of(a) == compute_of(b);
}

std::string EltwiseGroup::to_string() const {
  const CollapsedSpace space = collapse(*this);
  std::string text = "(";
  const auto separate = [&](const char* separator) {
    if (text.back() != '(' && !text.ends_with("> ")) text += separator;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    separate(", ");
    const int64_t stride = space.inner_stride(k);
    text += fmt::format("{}{}", name_of(inputs[k].dtype), stride == 1 ? "" : stride == 0 ? "." : "~");
  }
  for (size_t k = 0; k < constants.size(); ++k) {
    separate(", ");
    text += "const";
  }
  text += ")";
  size_t result = inputs.size() + constants.size();
  for (const EltwiseInstruction& instruction : code) {
    text += fmt::format("{} r{} = {}", result == inputs.size() + constants.size() ? "" : ";", result,
                        name_of(instruction.op));
    if (instruction.dtype != DType::kF32) text += fmt::format(":{}", name_of(instruction.dtype));
    for (const int16_t source : instruction.sources)
      if (source >= 0) text += fmt::format(" r{}", source);
    ++result;
  }
  text += " -> ";
  for (const int16_t output : outputs) {
    separate(", ");
    text += fmt::format("r{}", output);
  }
  return text;
}

Kernel prepare_eltwise(const EltwiseGroup& group) {
  if (debug_level() >= kDebugGroups)
    debug_print(fmt::format("-- loop over {}: {}\n", group.shape.to_string(), group.to_string()));
  std::optional<Kernel> named = prepare_eltwise_named(group, collapse(group));
  return named ? std::move(*named) : prepare_eltwise_vm(group);
}

}  // namespace runner::backends
