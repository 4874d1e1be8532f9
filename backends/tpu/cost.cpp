#include "backends/ir/op_def.h"
#include "backends/tpu/roofline.h"

namespace runner::backends::tpu {
namespace {

Cost arithmetic(const Program& program, ValueId id) {
  const XlaCount count = NodeQuery(program, id).xla_count();
  return {.flops = count.flops, .transcendentals = count.transcendentals};
}

// Bytes of a value including the padding of its tensors. A value that is not in memory counts as a row-major tensor.
int64_t padded_bytes(const DeviceProgram& device, const DeviceTensors& tensors, ValueId id) {
  const std::vector<Piece>& pieces = tensors.pieces[static_cast<size_t>(id)];
  if (pieces.empty()) return row_major_layout(device.types.of(device.program.type(id))).bytes;
  int64_t sum = 0;
  for (const Piece& piece : pieces) {
    const DeviceTensor& tensor = tensors.tensors[static_cast<size_t>(piece.tensor)];
    const bool whole = piece.elements == tensor.type.shape.elements();
    sum += whole ? tensor.layout.bytes : row_major_layout({tensor.type.dtype, Shape{piece.elements}}).bytes;
  }
  return sum;
}

Cost group_cost(const DeviceProgram& device, const DeviceTensors& tensors, const Group& group) {
  const auto bytes_of = [&](ValueId id) { return padded_bytes(device, tensors, id); };
  Cost cost;
  for (const ValueId id : group.nodes) cost += arithmetic(device.program, id);
  if (group.kind != GroupKind::kKernel) {
    for (const ValueId id : group.operands) cost.bytes += bytes_of(id);
    for (const ValueId id : group.results) cost.bytes += bytes_of(id);
    return cost;
  }
  const ValueId id = group.nodes[0];
  const bool is_held = tensors.pieces[static_cast<size_t>(id)].empty();
  // Readers hold a constant that is not in memory.
  if (kind_of(device.program.node(id).op) != OpKind::kLeaf || !is_held)
    cost.bytes = touched_bytes(device.program, id, bytes_of);
  return cost;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  transcendentals += other.transcendentals;
  bytes += other.bytes;
  return *this;
}

std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors) {
  std::vector<Cost> costs;
  for (size_t g = 0; g < device.groups.size(); ++g)
    costs.push_back(tensors.idle[g] ? Cost{} : group_cost(device, tensors, device.groups[g]));
  return costs;
}

}  // namespace runner::backends::tpu
