// How C++ functions are bound to Lua: arguments are read with types checked, what is thrown becomes a Lua error at the
// caller's line, and the exception again where it leaves Lua (Runtime::call).
//
// Our Lua is built as C++: its own errors, such as a budget of memory that is spent, unwind C++ frames, too.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/error.h"

struct lua_State;

namespace runner::lua {

// The name under which Lua code called the function under way; that of its table where the call shows none, as below
// pcall or in a tail call.
std::string called_as(lua_State* state);
// Notes the name for that.
void name_function(lua_State* state, const char* name, int (*function)(lua_State*));

// "name: argument 2 is …": what reading arguments throws; the line is added by bound().
[[noreturn]] void bad_argument(lua_State* state, int index, std::string_view wanted);
// "name: option is …", of the value at the top of the stack.
[[noreturn]] void bad_option(lua_State* state, std::string_view option, std::string_view wanted);
// The key of an __index or __newindex.  Throws "what has no entry [1]; …" where it is no text.
std::string_view key_argument(lua_State* state, std::string_view what);

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

// "number", "string", "nil", "tensor", "nn.Linear": the type of a value as messages name it.
std::string_view type_name(lua_State* state, int index);

// Pushes the text of the value at `index` as tostring() and print() give it.  It has no address in it, other than Lua's
// own, as equal runs would print different ones.
void push_text_of(lua_State* state, int index);

// The same as a text for messages.
std::string text_of(lua_State* state, int index);

// A number as messages show it.
std::string shown(double number);

double number_argument(lua_State* state, int index);
int64_t integer_argument(lua_State* state, int index);
bool boolean_argument(lua_State* state, int index, bool otherwise);
std::string_view text_argument(lua_State* state, int index);  // valid while the value is on the stack

// A field of the table at `index` itself, left on the stack; false, and nothing, where it is nil.
bool push_field(lua_State* state, int index, const char* name);

// The same for a function of an object: its own, or that of the tables behind it that its metatable's __index names. No
// Lua code runs, so that a table that answers unknown names with an error has no more functions than it has.
bool push_method(lua_State* state, int index, const char* name);

// The keys of the table at `index` that are texts, in order.
std::vector<std::string> text_keys(lua_State* state, int index);

// Throws "what: … cannot name thing: …" where the store and its readers could not show a name.
void check_name(const std::string& name, std::string_view what, std::string_view thing);

// The keys, in order, of a table whose keys are names of metrics.  Throws "what: …" for a key that cannot be one.
std::vector<std::string> metric_keys(lua_State* state, int index, std::string_view what);

// Whether the table at `index` has a key that is none of 1 … `size`, and so is more than a list; pushes such a key.
bool push_stray_key(lua_State* state, int index, int64_t size);

// Throws where the table at `index` has a key that is not in `known`: "what: unknown option 'x'; did you mean …".
void check_keys(lua_State* state, int index, std::string_view what, std::span<const std::string_view> known);

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

// Puts a table in the place of the library at the top of the stack, which messages call `name`, that has its entries
// and takes no others.  The library itself is the __index of its metatable.
void seal(lua_State* state, const char* name);
// The same for the tables in it.
void seal_all(lua_State* state, const std::string& name);
// Puts what stands behind a table that seal() has made in its place at `index`; other values stay.
void unseal(lua_State* state, int index);

// __newindex of a table that takes no entries; upvalue 1: its name.
int refuse_entry(lua_State* state);

// The table at the top of the stack, which messages call `name`, answers names that it does not have with an error;
// those that are set as well where `closed`, which is one for each `name`.
void refuse_unknown(lua_State* state, const char* name, bool closed = false);

// Hides the metatable at the top of the stack from Lua code: getmetatable gives false and setmetatable is an error.
void protect_metatable(lua_State* state);

}  // namespace runner::lua
