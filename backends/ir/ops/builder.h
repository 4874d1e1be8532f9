// Helpers of the functions of ops.h, which check their arguments and record nodes.
#pragma once

#include <span>
#include <string_view>

#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "schema/base/error.h"

namespace runner::backends::ops {

// Checks an argument. Throws Error(kRun) at the current source line, as Program::record().
template <class... Args>
void check_input(bool holds, Value x, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ErrorKind::kRun, fmt::format(format, std::forward<Args>(args)...), x.program->mark());
}

Value record(Op op, std::initializer_list<Value> operands, std::span<const int64_t> attrs = {},
             const TensorType& requested = {});

// The axis with negative numbers counted from the end.
int normal_axis(std::string_view op, Value x, int64_t axis);

// The shape that two tensors broadcast to.
Shape common_shape(std::string_view op, Value a, Value b);

// x in f32 if it has 16 bits, for a sum whose mean is rounded once.
Value summable(Value x);

Value softplus_tail(Value x);  // log(1 + exp(−|x|))

}  // namespace runner::backends::ops
