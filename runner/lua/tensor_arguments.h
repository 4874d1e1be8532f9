// Reads the arguments of tensor functions, and assigns the line of the call to the operations that they trace.
//
// Integers are separate arguments or one list. All functions throw Error(kRun); bound() adds the line.
#pragma once

#include <array>
#include <span>

#include "runner/lua/arguments.h"
#include "runner/lua/recording.h"
#include "schema/base/error.h"

namespace runner::lua {

// Returns the recording of the current step. Operations traced from now on have the line of the calling hook.
Recording& record_here(lua_State* state);

// Calls record_here() and returns the tensor of a method call, its first argument.
Value operand(lua_State* state);

// Reads an axis, 1…rank or −rank…−1. Returns it as the engine counts axes: from 0, or from −1 at the end.
int64_t axis_of(lua_State* state, int index, Value x);

// Returns record(). Axis numbers in the engine's error messages count from 0 and are converted to those of Lua, from 1.
Error with_axes_from_one(const Error& error);
template <class Record>
Value from_one(const Record& record) {
  try {
    return record();
  } catch (const Error& error) {
    throw with_axes_from_one(error);
  }
}

// Up to eight axes or sizes, without an allocation.
struct Integers {
  std::array<int64_t, backends::Shape::kMaxRank> values{};
  size_t count = 0;

  void add(int64_t value);
  std::span<const int64_t> span() const { return {values.data(), count}; }
};

// Reads the integers from argument `first` on, or from a list at `first`.
Integers integers_from(lua_State* state, int first);
// Like integers_from(), but reads axes of x with the conversion of axis_of().
Integers axes_from(lua_State* state, int first, Value x);
backends::Shape shape_from(lua_State* state, int first);

// Returns the option as a tensor; unset if it is missing.
Value tensor_option(lua_State* state, const OptionTable& options, const char* name);

// Reads the name of a dtype: "f32", "i64", ….
backends::DType dtype_of(lua_State* state, int index);

}  // namespace runner::lua
