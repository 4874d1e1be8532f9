// Traces numbers of a hook's code.
//
// A number next to a tensor is an input of the Program, with its value at the time of tracing. Steps that differ only
// in numbers therefore share one plan. The numbers 0, 1 and −1 are constants, as in the graphs of PyTorch/XLA, except
// with the dialect `clean`. All numbers are constants if ForwardContext::host is null or `fixed`, because then no
// values are passed at each execution. A fixed host still records the numbers in HostValues::traced. The bits of a
// value are the same in all cases.
#pragma once

#include "backends/ir/traced_scalar.h"
#include "runner/lua/recording.h"

namespace runner::lua {

// A number as in Lua.
struct Number {
  double value;
  bool is_integer;
};
Number number_at(lua_State* state, int index);  // requires a number at `index`
// Throws Error(kRun) if the value is not a number.
Number checked_number(lua_State* state, int index);
Number checked_number(lua_State* state, int index, Number otherwise);

// Returns a number as an operand next to a tensor of `type`. The result has that dtype, and the shape () or that of
// `type`; operands broadcast. `use`: how PyTorch would pass the number in the same code.
Value number_operand(const Recording& recording, Number number, const backends::TensorType& type,
                     backends::ScalarUse use);
inline Value number_operand(const Recording& recording, Number number, Value tensor, backends::ScalarUse use) {
  return number_operand(recording, number, tensor.type(), use);
}
// Like number_operand(), with exactly the shape of `type`.
Value filled(const Recording& recording, Number number, const backends::TensorType& type);

// Returns a number () f32 that only the run needs and that PyTorch would not pass to a device.
Value host_number(const Recording& recording, double number);

// Returns the list of numbers at `index`, at most 1,024, as a tensor (N) f32.
Value list_of_numbers(lua_State* state, int index);

}  // namespace runner::lua
