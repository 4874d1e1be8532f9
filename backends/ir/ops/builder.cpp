#include "backends/ir/ops/builder.h"

#include <algorithm>

namespace runner::backends::ops {

Value record(Op op, std::initializer_list<Value> operands, std::span<const int64_t> attrs,
             const TensorType& requested) {
  std::array<ValueId, 4> ids{};
  size_t n = 0;
  Program& program = *operands.begin()->program;
  for (const Value& operand : operands) {
    RUN_ASSERT(operand.program == &program);
    ids[n++] = operand.id;
  }
  return {&program, program.record(op, {ids.data(), n}, attrs, requested)};
}

int normal_axis(std::string_view op, Value x, int64_t axis) {
  const int rank = x.shape().rank();
  const int64_t normal = axis < 0 ? axis + rank : axis;
  check_input(normal >= 0 && normal < rank, x, "{}: axis {} is out of range for {}", op, axis, x.type());
  return static_cast<int>(normal);
}

Shape common_shape(std::string_view op, Value a, Value b) {
  const Shape x = a.shape(), y = b.shape();
  for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
    const int64_t p = x[x.rank() - i], q = y[y.rank() - i];
    check_input(p == q || p == 1 || q == 1, a, "{}: cannot broadcast {} and {}: sizes {} and {} at axis -{}", op,
                a.type(), b.type(), p, q, i);
  }
  return broadcast(x, y);
}

Value summable(Value x) {
  return size_of(x.dtype()) == 2 ? cast(x, DType::kF32) : x;
}

Value unary(Op op, Value x) {
  return record(op, {x});
}

Value binary(Op op, Value a, Value b) {
  if (a.shape() != b.shape()) {
    const Shape common = common_shape(name_of(op), a, b);
    a = expand(a, common);
    b = expand(b, common);
  }
  return record(op, {a, b});
}

}  // namespace runner::backends::ops
