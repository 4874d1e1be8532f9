#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/numbers.h"
#include "runner/lua/runtime.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua::creation {
namespace {

namespace ops = backends::ops;
using backends::DType;

// Reads sizes as separate arguments or as one list, followed by an optional dtype.
int constant_by_sizes(lua_State* state, double value) {
  DType dtype = DType::kF32;
  if (lua_gettop(state) > 1 && lua_type(state, -1) == LUA_TSTRING) {
    dtype = dtype_of(state, -1);
    lua_pop(state, 1);
  }
  backends::Program& program = record_here(state).program();
  return push_tensor(state, {&program, program.constant(value, {dtype, shape_from(state, 1)})});
}

// Reads the length of a row or the side of a square.
int64_t count_argument(lua_State* state, const char* what) {
  const int64_t count = integer_argument(state, 1);
  RUN_CHECK(count >= 0, ErrorKind::kRun, "{}: expected a size of at least 0, got {}", what, count);
  return count;
}

}  // namespace

int tensor(lua_State* state) {
  record_here(state);
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a list of numbers");
  return push_tensor(state, list_of_numbers(state, 1));
}

// nn.full({2, 3}, value [, dtype])
int full(lua_State* state) {
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a list of sizes");
  const DType dtype = lua_isnoneornil(state, 3) ? DType::kF32 : dtype_of(state, 3);
  const Number number = checked_number(state, 2);
  return push_tensor(state, filled(record_here(state), number, {dtype, shape_from(state, 1)}));
}

int full_like(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, filled(recording_of(state, "a tensor"), checked_number(state, 2), x.type()));
}

int zeros(lua_State* state) {
  return constant_by_sizes(state, 0);
}

int ones(lua_State* state) {
  return constant_by_sizes(state, 1);
}

int zeros_like(lua_State* state) {
  return push_tensor(state, ops::full_like(operand(state), 0));
}

int ones_like(lua_State* state) {
  return push_tensor(state, ops::full_like(operand(state), 1));
}

int arange(lua_State* state) {
  backends::Program& program = record_here(state).program();
  return push_tensor(state, ops::arange(program, count_argument(state, "arange")));
}

int eye(lua_State* state) {
  backends::Program& program = record_here(state).program();
  const int64_t size = count_argument(state, "eye");
  RUN_CHECK(size > 0, ErrorKind::kRun, "eye: expected a size of at least 1, got 0");
  return push_tensor(state, ops::one_hot(ops::arange(program, size), size));
}

namespace {

using Random = Value (*)(Value key, const backends::Shape& shape, int64_t stream);

int random_tensor(lua_State* state, Random make) {
  Recording& recording = record_here(state);
  const Value key = recording.forward().draw_key;
  RUN_CHECK(bool{key}, ErrorKind::kRun, "random tensors are only available in a step, not in an optimizer rule");
  return push_tensor(state, make(key, shape_from(state, 1), recording.next_stream(Runtime::of(state))));
}

}  // namespace

int rand(lua_State* state) {
  return random_tensor(state, ops::random_uniform);
}

int randn(lua_State* state) {
  return random_tensor(state, ops::random_normal);
}

}  // namespace runner::lua::creation
