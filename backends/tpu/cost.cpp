#include "backends/tpu/cost.h"

#include "backends/ir/op_def.h"
#include "backends/ir/traffic.h"

namespace runner::backends::tpu {
namespace {

Cost arithmetic(const Program& program, ValueId id) {
  const XlaCount count = NodeQuery(program, id).xla_count();
  return {.flops = count.flops, .transcendentals = count.transcendentals};
}

class CostCounter {
 public:
  CostCounter(const DeviceProgram& device, const DeviceTensors& tensors)
      : program_(device.program), device_(device), tensors_(tensors) {}

  Cost node(ValueId id) const {
    Cost cost = arithmetic(program_, id);
    cost.bytes = node_bytes(id);
    return cost;
  }

  Cost group(const Group& group) const {
    if (group.kind == GroupKind::kKernel) return node(group.nodes[0]);
    Cost cost;
    for (const ValueId id : group.nodes) cost += arithmetic(program_, id);
    for (const ValueId id : group.operands) cost.bytes += bytes(id);
    for (const ValueId id : group.results) cost.bytes += bytes(id);
    return cost;
  }

 private:
  // Bytes of a value including the padding of its tensors. A value that is not in memory counts as a row-major tensor.
  int64_t bytes(ValueId id) const {
    const std::vector<Piece>& pieces = tensors_.pieces[static_cast<size_t>(id)];
    if (pieces.empty()) return row_major_layout(device_.types.of(program_.type(id))).bytes;
    int64_t sum = 0;
    for (const Piece& piece : pieces) {
      const DeviceTensor& tensor = tensors_.tensors[static_cast<size_t>(piece.tensor)];
      const bool whole = piece.elements == tensor.type.shape.elements();
      sum += whole ? tensor.layout.bytes : row_major_layout({tensor.type.dtype, Shape{piece.elements}}).bytes;
    }
    return sum;
  }

  int64_t node_bytes(ValueId id) const {
    const bool broadcast = tensors_.pieces[static_cast<size_t>(id)].empty();
    if (kind_of(program_.node(id).op) == OpKind::kLeaf && broadcast) return 0;  // a constant that readers hold
    return touched_bytes(program_, id, [this](ValueId value) { return bytes(value); });
  }

  const Program& program_;
  const DeviceProgram& device_;
  const DeviceTensors& tensors_;
};

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  transcendentals += other.transcendentals;
  bytes += other.bytes;
  return *this;
}

Cost node_cost(const DeviceProgram& device, const DeviceTensors& tensors, ValueId id) {
  return CostCounter(device, tensors).node(id);
}

std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors) {
  std::vector<Cost> costs;
  for (size_t g = 0; g < device.groups.size(); ++g)
    costs.push_back(tensors.idle[g] ? Cost{} : CostCounter(device, tensors).group(device.groups[g]));
  return costs;
}

}  // namespace runner::backends::tpu
