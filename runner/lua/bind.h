// Binds C++ functions to Lua. An exception becomes a Lua error with the caller's line, and is rethrown as the original
// exception where it leaves Lua (Runtime::call).
//
// Lua is built as C++, so its own errors, such as an exceeded memory budget, unwind C++ frames too.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "schema/base/clock.h"
#include "schema/base/error.h"

struct lua_State;

namespace runner::lua {

// Returns the name under which Lua code called the current function. If the call has no name (under pcall or in a tail
// call), returns the name registered by name_function().
std::string called_as(lua_State* state);
// Registers the name of a function for called_as(), and the largest number of arguments that it accepts.
constexpr int kAnyNumber = -1;
void name_function(lua_State* state, const char* name, int (*function)(lua_State*), int most = kAnyNumber);

// Returns the largest number of arguments that a usage text shows, including the object of a method:
// 3 for "x:chunk(count [, axis])". The `usage` of all tables of functions has one of these forms (a test checks it):
// - "x + y" or "-x": an operator with its operands;
// - "x:NAME(ARGUMENTS)" or "acc:NAME(ARGUMENTS)": a method, whose object counts;
// - "MODULE.NAME(ARGUMENTS)": a function;
// - "MODULE.NAME{FIELDS}": a function of one table.
// ARGUMENTS are separated by commas, of which those in { } belong to a table. [ ] marks those that may be missing. An
// argument "name..." stands for any number.
int most_arguments(std::string_view usage);
// Throws "name: argument 3 is …, expected at most 2 arguments" if the current call has more arguments than registered
// for `function`. Trailing arguments that are nil do not count.
void check_argument_count(lua_State* state, int (*function)(lua_State*));
// The same for a given number.
void check_argument_count(lua_State* state, int most);

// Whether pcall catches an exception (kCaught) or the run ends (kEndsRun). An error of the store, an interruption, and
// any exception other than Error always end the run.
enum class Raise { kCaught, kEndsRun };
inline Raise always_caught(lua_State*) {
  return Raise::kCaught;
}

// Raises `exception` as a Lua error. An error without a line gets the line of the caller. Does not return.
int raise_exception(lua_State* state, std::exception_ptr exception, Raise raise);

// Charges the instruction budget for a call of a C++ function, which takes longer than an instruction.
void count_call(lua_State* state);

// While the object exists, the engine works for the hook, whose time budget does not count that. The clock is a coarse
// one, which costs little: short calls seem to take no time or one tick, which is right on average.
class EngineTime {
 public:
  explicit EngineTime(lua_State* state) : state_(state), begin_(coarse_seconds()) {}
  ~EngineTime();
  EngineTime(const EngineTime&) = delete;
  EngineTime& operator=(const EngineTime&) = delete;

 private:
  lua_State* const state_;
  const double begin_;
};

// Adapter that makes `function` callable from Lua. `raise` decides how an exception is treated.
template <int (*function)(lua_State*), Raise (*raise)(lua_State*) = always_caught>
int bound(lua_State* state) {
  count_call(state);
  const EngineTime time(state);
  std::exception_ptr thrown;
  try {
    check_argument_count(state, bound<function, raise>);
    return function(state);
  } catch (const std::exception&) {
    thrown = std::current_exception();
  }
  return raise_exception(state, thrown, raise(state));
}

// Returns the line of the hook that called the current C++ function, or line 0 if there is none.
SourceMark line_of_caller(lua_State* state);

// Pops the function at the top of the stack and returns where it is defined, or an unknown mark if not in Lua code.
SourceMark place_of_function(lua_State* state);

// Sets a function in the table at the top of the stack and registers it with name_function().
void set_function(lua_State* state, const char* name, int (*function)(lua_State*), int most = kAnyNumber);

// A metamethod, or an entry of a table that contains only functions.
struct NamedFunction {
  const char* name;
  int (*function)(lua_State*);
};

// Returns the largest number of arguments of the function in a row of a table, which may have a `usage`.
template <class Row>
int most_arguments_of(const Row& row) {
  if constexpr (requires { row.usage; }) return most_arguments(row.usage);
  return kAnyNumber;
}

// Sets the functions of `rows` for which `includes` is true in the table at the top of the stack. Each row has a `name`
// and a `function`, and may have a `usage`.
template <class Rows, class Includes>
void set_functions(lua_State* state, const Rows& rows, const Includes& includes) {
  for (const auto& row : rows)
    if (includes(row)) set_function(state, row.name, row.function, most_arguments_of(row));
}
template <class Rows>
void set_functions(lua_State* state, const Rows& rows) {
  set_functions(state, rows, [](const auto&) { return true; });
}

}  // namespace runner::lua
