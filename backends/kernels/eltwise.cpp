// Preparing element-wise groups: the collapsed space, the text, and the choice between a compiled loop and the VM.

#include "backends/kernels/eltwise.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/kernels/eltwise_vm.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/named_group.h"
#include "backends/kernels/make_kernel.h"
#include "backends/kernels/prepare.h"
#include "schema/error.h"

namespace runner::backends {

namespace {

using Dims = std::array<int64_t, Shape::kMaxRank>;

// Rows that a compiled loop walks: cols contiguous elements, rows of them.
struct NamedCall {
  const NamedLoop* loop;
  std::vector<double> constants;
  std::vector<int64_t> row_bytes;      // of each input
  std::vector<int64_t> element_bytes;  // of each input, 0 where it has one value for a row
  std::vector<int64_t> output_bytes;   // of an element of each output
  int64_t rows, cols;
  int64_t chunks;
};

// Elements [first, first + n) of every row's share: with one row the chunk cuts the row, else it takes whole rows.
void run_named(const NamedCall& call, const KernelArguments& arguments) {
  const bool one_row = call.rows == 1;
  const int64_t pieces = one_row ? call.cols : call.rows;
  arguments.pool.parallel_for(call.chunks, [&](int64_t chunk) {
    // A piece of one row starts at a multiple of 64 elements, so that neighbours share no cache line.
    const int64_t grain = one_row ? 64 : 1;
    const int64_t units = (pieces + grain - 1) / grain;
    const int64_t begin = std::min(pieces, units * chunk / call.chunks * grain);
    const int64_t end = std::min(pieces, units * (chunk + 1) / call.chunks * grain);
    NamedLoop::Arguments loop;
    for (size_t k = 0; k < call.row_bytes.size(); ++k) {
      loop.inputs[k] = arguments.operands[k] + begin * (one_row ? call.element_bytes[k] : call.row_bytes[k]);
      loop.row_bytes[k] = call.row_bytes[k];
    }
    for (size_t k = 0; k < call.output_bytes.size(); ++k)
      loop.outputs[k] = arguments.results[k] + begin * (one_row ? 1 : call.cols) * call.output_bytes[k];
    loop.constants = call.constants.data();
    loop.rows = one_row ? 1 : end - begin;
    loop.cols = one_row ? end - begin : call.cols;
    call.loop->run(loop);
  });
}

const NamedLoop* find_named(const EltwiseGroup& group) {
  const std::string text = group.to_string();
  for (const NamedLoop& loop : loops().named)
    if (loop.text == text) return &loop;
  return nullptr;
}

Kernel prepare_named(const NamedLoop& loop, const EltwiseGroup& group, const CollapsedSpace& space) {
  NamedCall call{.loop = &loop,
                 .constants = group.constants,
                 .row_bytes = {},
                 .element_bytes = {},
                 .output_bytes = {},
                 .rows = space.rank == 2 ? space.dims[0] : 1,
                 .cols = space.inner(),
                 .chunks = 1};
  for (size_t k = 0; k < group.inputs.size(); ++k) {
    const auto bytes = static_cast<int64_t>(size_of(group.inputs[k].dtype));
    call.row_bytes.push_back(space.rank == 2 ? space.strides[k][0] * bytes : 0);
    call.element_bytes.push_back(space.inner_stride(k) * bytes);
  }
  for (const int16_t output : group.outputs) {
    const size_t at = static_cast<size_t>(output) - group.inputs.size() - group.constants.size();
    call.output_bytes.push_back(static_cast<int64_t>(size_of(group.code[at].dtype)));
  }
  // A compiled loop takes about a quarter of the interpreter's time.
  call.chunks = chunk_count(element_cost_ns(group) / 4 * static_cast<double>(group.shape.elements()),
                            call.rows > 1 ? call.rows : (call.cols + 63) / 64);
  return make_kernel<run_named>(fmt::format("eltwise.{}", loop.name), std::move(call));
}

}  // namespace

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
  const CollapsedSpace space = collapse(group);
  const NamedLoop* named = space.rank <= 2 ? find_named(group) : nullptr;
  return named != nullptr ? prepare_named(*named, group, space) : prepare_eltwise_vm(group);
}

}  // namespace runner::backends
