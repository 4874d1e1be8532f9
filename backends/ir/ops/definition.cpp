#include "backends/ir/ops/definition.h"

#include <algorithm>
#include <array>

namespace runner::backends::op_defs {

TensorType as_requested(Query q) {
  return q.requested;
}

TensorType as_operand(Query q) {
  return q.operands[0];
}

TensorType number_operand(Query q) {
  check(q.operands[0].dtype != DType::kBool, "{}: expected a tensor of numbers, got {}", name_of(q.op), q.operands[0]);
  return q.operands[0];
}

TensorType float_operand(Query q) {
  check(is_float(q.operands[0].dtype), "{}: expected a float tensor, got {}", name_of(q.op), q.operands[0]);
  return q.operands[0];
}

TensorType append_axis(DType dtype, const Shape& shape, int64_t size) {
  std::array<int64_t, Shape::kMaxRank + 1> dims{};
  std::copy(shape.dims().begin(), shape.dims().end(), dims.begin());
  dims[static_cast<size_t>(shape.rank())] = size;
  return {dtype, Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.rank()) + 1))};
}

void check_index(const TensorType& index, std::string_view op) {
  check(index.dtype == DType::kI64, "{}: expected i64 indices, got {}", op, index);
}

ValueId fold_moved_constant(const FoldQuery& query) {
  const std::optional<double> value = query.constant(0);
  return value ? query.to.constant(*value, query.type()) : kNoValue;
}

XlaCount counted(const XlaRates& rates, const TensorType& iterated, const TensorType& result) {
  const Shape& shape = iterated.shape;
  const int64_t elements = shape.elements();
  const int64_t rows = elements == 0 ? 0 : shape.rank() == 0 ? 1 : elements / shape.back();
  return {.flops = elements * rates.flops + rows * rates.flops_of_row + result.shape.elements() * rates.flops_of_result,
          .transcendentals = elements * rates.transcendentals + rows * rates.transcendentals_of_row};
}

}  // namespace runner::backends::op_defs
