// How C++ functions are bound to Lua: what is thrown becomes a Lua error at the caller's line, and the exception again
// where it leaves Lua (Runtime::call).
//
// Our Lua is built as C++: its own errors, such as a budget of memory that is spent, unwind C++ frames, too.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "schema/error.h"

struct lua_State;

namespace runner::lua {

// The name under which Lua code called the function under way; that of its table where the call shows none, as below
// pcall or in a tail call.
std::string called_as(lua_State* state);
// Notes the name for that.
void name_function(lua_State* state, const char* name, int (*function)(lua_State*));

// Who may go on after an exception: a hook that catches it with pcall, or nobody, because the run is over.  An error of
// the store, an interruption and whatever is no Error always end the run.
enum class Raise { kCaught, kEndsRun };
inline Raise always_caught(lua_State*) {
  return Raise::kCaught;
}

// Makes the exception under way a Lua error; it has the caller's line where it has none of its own.  Does not return.
int raise_exception(lua_State* state, const std::exception_ptr& exception, Raise raise);

// Counts a call of C++ code, which takes longer than an instruction does, against the budget.
void count_call(lua_State* state);

// `function` as Lua calls it.  `raise` is asked when it has thrown.
template <int (*function)(lua_State*), Raise (*raise)(lua_State*) = always_caught>
int bound(lua_State* state) {
  count_call(state);
  std::exception_ptr thrown;
  try {
    return function(state);
  } catch (const std::exception&) {
    thrown = std::current_exception();
  }
  return raise_exception(state, thrown, raise(state));
}

// The line of the hook that called the C++ function under way; line 0 where none did.
SourceMark line_of_caller(lua_State* state);

// Where the function at the top of the stack, which is popped, is defined; unknown where that is not in Lua.
SourceMark place_of_function(lua_State* state);

// Sets a function in the table at the top of the stack, and notes its name.
void set_function(lua_State* state, const char* name, int (*function)(lua_State*));

// A metamethod, or an entry of a table that has only functions.
struct NamedFunction {
  const char* name;
  int (*function)(lua_State*);
};

// Sets the functions of rows, each with a `name` and a `function`, in the table at the top of the stack: those for
// which `wanted` holds.
template <class Rows, class Wanted>
void set_functions(lua_State* state, const Rows& rows, const Wanted& wanted) {
  for (const auto& row : rows)
    if (wanted(row)) set_function(state, row.name, row.function);
}
template <class Rows>
void set_functions(lua_State* state, const Rows& rows) {
  set_functions(state, rows, [](const auto&) { return true; });
}

}  // namespace runner::lua
