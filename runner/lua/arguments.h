// What Lua code passes to C++ functions: values, lists and tables of options, read with their types checked, and as
// messages show them.
//
// All throw Error(kRun), which names the function under way; the line is added by bound().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct lua_State;

namespace runner::lua {

// ---- values in messages ----

// "number", "string", "nil", "tensor", "nn.Linear": the type of a value as messages name it.
std::string_view type_name(lua_State* state, int index);

// Pushes the text of the value at `index` as tostring() and print() give it.  It has no address in it, other than Lua's
// own, as equal runs would print different ones.
void push_text_of(lua_State* state, int index);

// The same as a text for messages.
std::string text_of(lua_State* state, int index);

// A number as messages show it.
std::string shown(double number);

// "name: argument 2 is …": what reading arguments throws.
[[noreturn]] void bad_argument(lua_State* state, int index, std::string_view wanted);
// "name: option is …", of the value at the top of the stack.
[[noreturn]] void bad_option(lua_State* state, std::string_view option, std::string_view wanted);
// The key of an __index or __newindex.  Throws "what has no entry [1]; …" where it is no text.
std::string_view key_argument(lua_State* state, std::string_view what);

// ---- arguments ----

// The integer at `index`; none: no number, or one with a fraction.
std::optional<int64_t> integer_at(lua_State* state, int index);

double number_argument(lua_State* state, int index);
int64_t integer_argument(lua_State* state, int index);
std::string_view text_argument(lua_State* state, int index);  // valid while the value is on the stack
// The same of an argument that may be left out, or nil.
double number_argument(lua_State* state, int index, double otherwise);
int64_t integer_argument(lua_State* state, int index, int64_t otherwise);
bool boolean_argument(lua_State* state, int index, bool otherwise);
std::string_view text_argument(lua_State* state, int index, std::string_view otherwise);

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

// Of the table at `index`, whatever their keys.
int64_t count_entries(lua_State* state, int index);

// The length of the table at `index`, which has no other keys: "what is a list without gaps, got the key …; hint".
int64_t list_size(lua_State* state, int index, std::string_view what, std::string_view hint = "");
// The same of an argument of the function under way.
int64_t list_argument_size(lua_State* state, int index);

// Throws where the table at `index` has a key that is not in `known`: "what: unknown entry 'x'; did you mean …".
void check_keys(lua_State* state, int index, std::string_view what, std::span<const std::string_view> known);

// Throws "whose 'name'; did you mean …", `whose` being "acc has no"; where no name is near, `otherwise` or all names.
[[noreturn]] void fail_unknown(std::string_view whose, std::string_view name, const std::vector<std::string>& names,
                               std::string_view otherwise = "");

// The names of the rows of a table.
template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// The table of options that a function takes as its last argument.
class Options {
 public:
  // Throws where there is something else at `index` than such a table, or nothing, or a key that is not in `known`.
  Options(lua_State* state, int index, std::initializer_list<std::string_view> known);

  // Each throws "function: name is …, expected …" for another type.
  double number(const char* name, double otherwise) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  bool flag(const char* name, bool otherwise) const;
  std::string text(const char* name, std::string_view otherwise) const;
  // Leaves the value on the stack; false, and nothing, where it is not given.
  bool push(const char* name) const { return is_given_ && push_field(state_, index_, name); }

 private:
  template <class Type, class Take>
  Type get(const char* name, Type otherwise, const Take& take) const;

  lua_State* const state_;
  const int index_;
  const bool is_given_;
};

}  // namespace runner::lua
