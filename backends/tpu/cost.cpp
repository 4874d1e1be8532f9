#include "backends/tpu/cost.h"

#include "backends/ir/traffic.h"

namespace runner::backends::tpu {
namespace {

// Work of an op per element of the tensor it iterates over, per row of that tensor (along its last axis), and per
// element of its result.
struct Rates {
  int64_t flops = 0, flops_of_row = 0, flops_of_result = 0;
  int64_t transcendentals = 0, transcendentals_of_row = 0;
};

constexpr Rates kNothing{}, kArithmetic{.flops = 1}, kTranscendental{.transcendentals = 1};
// Maximum, difference, exponential and sum.
constexpr Rates kLogSumExp{.flops = 3, .flops_of_row = -2, .transcendentals = 1};

constexpr Rates plus(Rates rates, int64_t flops, int64_t flops_of_row = 0, int64_t transcendentals_of_row = 0) {
  rates.flops += flops;
  rates.flops_of_row += flops_of_row;
  rates.transcendentals_of_row += transcendentals_of_row;
  return rates;
}
// Mean, difference, square, variance + eps, inverse square root, product.
constexpr Rates kNormalised{.flops = 5, .flops_of_row = 1, .transcendentals_of_row = 1};

Rates rates_of(Op op) {
  switch (op) {
    case Op::kExp:
    case Op::kLog:
    case Op::kLog1p:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kErf:
    case Op::kPow:
    case Op::kRandomUniform:
    case Op::kRandomNormal: return kTranscendental;
    case Op::kGelu: return plus(kTranscendental, 4);  // 0.5 · x · (1 + erf(x · √½))
    case Op::kGeluTanh: return plus(kTranscendental, 8);  // 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x · x · x)))
    case Op::kSilu: return plus(kTranscendental, 1);
    case Op::kDropoutMask: return plus(kTranscendental, 2);  // comparison and scaling
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin: return {.flops = 1, .flops_of_result = -1};
    // Two comparisons, three selections and one minimum per pair.
    case Op::kArgMax: return {.flops = 6, .flops_of_result = -6};
    case Op::kOneHot:
    case Op::kScatterAdd:
    case Op::kEmbeddingGrad:
    case Op::kAllReduce: return kArithmetic;
    case Op::kSoftmax: return plus(kLogSumExp, 1);             // a division
    case Op::kLogSoftmax: return plus(kLogSumExp, 1, 0, 1);    // per row a logarithm; per element a difference
    case Op::kCrossEntropy: return plus(kLogSumExp, 1, 1, 1);  // log_softmax, and a negation per row
    case Op::kCrossEntropyGrad: return plus(kLogSumExp, 3);    // softmax − one-hot, times the row's gradient
    case Op::kLayerNorm: return plus(kNormalised, 2);          // · gamma + beta
    case Op::kLayerNormGradX: return plus(kNormalised, 8);     // two row means of gamma · grad, and their subtraction
    case Op::kLayerNormGradGamma:                              // · grad, summed over the rows
      return {.flops = 7, .flops_of_row = 1, .flops_of_result = -1, .transcendentals_of_row = 1};
    default: return is_elementwise(op) ? kArithmetic : kNothing;
  }
}

// Type of the tensor that an op iterates over.
const TensorType& worked_through(const Program& program, ValueId id) {
  const std::span<const ValueId> operands = program.operands(id);
  switch (program.node(id).op) {
    case Op::kScatterAdd: return program.type(operands[2]);
    case Op::kEmbeddingGrad: return program.type(operands[1]);
    default: break;
  }
  const OpClass cls = row_of(program.node(id).op).cls;
  return cls == OpClass::kReduce || cls == OpClass::kRow ? program.type(operands[0]) : program.type(id);
}

Cost arithmetic(const Program& program, ValueId id) {
  const TensorType& result = program.type(id);
  if (program.node(id).op == Op::kMatmul) {
    const Shape& a = program.type(program.operands(id)[0]).shape;
    return {.flops = 2 * result.shape.elements() * a[a.rank() - (program.attrs(id)[0] != 0 ? 2 : 1)]};
  }
  const Rates rates = rates_of(program.node(id).op);
  const Shape& shape = worked_through(program, id).shape;
  const int64_t elements = shape.elements();
  const int64_t rows = elements == 0 ? 0 : shape.rank() == 0 ? 1 : elements / shape.back();
  return {.flops = elements * rates.flops + rows * rates.flops_of_row + result.shape.elements() * rates.flops_of_result,
          .transcendentals = elements * rates.transcendentals + rows * rates.transcendentals_of_row};
}

class Counter {
 public:
  Counter(const DeviceProgram& device, const DeviceTensors& tensors)
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
    if (program_.node(id).op == Op::kConstant) return broadcast ? 0 : bytes(id);
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
  return Counter(device, tensors).node(id);
}

std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors) {
  std::vector<Cost> costs;
  for (size_t g = 0; g < device.groups.size(); ++g)
    costs.push_back(tensors.idle[g] ? Cost{} : Counter(device, tensors).group(device.groups[g]));
  return costs;
}

}  // namespace runner::backends::tpu
