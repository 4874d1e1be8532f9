// How the functions of tensors read their arguments, and give what they record the line of the call.
//
// Integers come one by one or as one list.  All throw Error(kRun); the line is added by bound().
#pragma once

#include <array>
#include <span>

#include "runner/lua/recording.h"
#include "schema/error.h"

namespace runner::lua {

// The step that is being recorded; nodes get the line of the hook that called.
Recording& record_here(lua_State* state);

// The tensor that a method is called on, after record_here().
Value operand(lua_State* state);

// The integer at `index` among 1…rank or −rank…−1, as the engine counts axes: from 0, or from −1 at the end.
int64_t axis_of(lua_State* state, int index, Value x);

// What `record` gives.  The engine's messages count axes from 0, those of Lua from 1.
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

// The integers from argument `first` on, or those of the list that stands there.
Integers integers_from(lua_State* state, int first);
// The same as axes of x, as axis_of() counts.
Integers axes_from(lua_State* state, int first, Value x);
backends::Shape shape_from(lua_State* state, int first);

// "f32", "i64", …
backends::DType dtype_of(lua_State* state, int index);

}  // namespace runner::lua
