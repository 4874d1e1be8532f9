// Numbers of a hook's code as parts of what is recorded.
//
// A number beside a tensor is an input of the Program, with the value that it has in this recording: steps that differ
// in numbers alone are one plan.  0, 1 and −1 are constants, as they are in PyTorch/XLA's graphs (but with the dialect
// clean), and so are all numbers where nobody hands values over at each execution: where there is no Forward::host, or
// a fixed one, which still hears of them.  A value has the same bits either way.
#pragma once

#include <optional>

#include "backends/ir/traced_scalar.h"
#include "runner/lua/recording.h"

namespace runner::lua {

// As Lua has it.
struct Number {
  double value;
  bool is_integer;
};
Number number_at(lua_State* state, int index);  // where there is one
// Throws Error(kRun) for anything else.
Number checked_number(lua_State* state, int index);
Number checked_number(lua_State* state, int index, Number otherwise);

// A number beside tensors of a type: of their dtype, () or of their shape, which operands that broadcast may be. `use`:
// how the same code hands it to PyTorch.
Value number_beside(const Recording& recording, Number number, const backends::TensorType& type,
                    backends::ScalarUse use);
inline Value number_beside(const Recording& recording, Number number, Value tensor, backends::ScalarUse use) {
  return number_beside(recording, number, tensor.type(), use);
}
// The same of exactly that type.
Value filled(const Recording& recording, Number number, const backends::TensorType& type);

// A number for the run alone, which PyTorch would not hand to a device, () f32.
Value host_number(const Recording& recording, double number);

// The list of numbers at `index`, at most 1,024, as a tensor (N) f32.
Value list_of_numbers(lua_State* state, int index);

}  // namespace runner::lua
