// Reads the arguments of C++ functions called from Lua with type checks: values, lists and tables of options. Also
// formats Lua values for messages.
//
// All functions throw Error(kRun) with the name of the called function. bound() adds the line.
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

// Returns the type name of a value for messages: "number", "string", "nil", "tensor" or "nn.Linear".
std::string_view type_name(lua_State* state, int index);

// Pushes the text of the value at `index`, as tostring() and print() format it. Unlike Lua's own text it contains no
// address, because equal runs must print the same.
void push_text_of(lua_State* state, int index);

// Returns the same text for messages.
std::string text_of(lua_State* state, int index);

// Formats a number for messages.
std::string shown(double number);

// Whether the running function was called as object:name(…), so that its first argument is the object.
bool is_method_call(lua_State* state);
// Number of the argument at `index` for messages. The object of object:name(…) does not count.
int argument_number(lua_State* state, int index);

// Throws "name: argument 2 is …, expected …".
[[noreturn]] void bad_argument(lua_State* state, int index, std::string_view expected);
// Throws "name: option is …, expected …" about the value at the top of the stack.
[[noreturn]] void bad_option(lua_State* state, std::string_view option, std::string_view expected);
// Returns the key passed to __index or __newindex. Throws "what has no entry [1]; …" if it is not a string.
std::string_view key_argument(lua_State* state, std::string_view what);

// ---- arguments ----

// Returns the integer at `index`, or nullopt if the value is not a number or has a fraction.
std::optional<int64_t> integer_at(lua_State* state, int index);

double number_argument(lua_State* state, int index);
int64_t integer_argument(lua_State* state, int index);
std::string_view text_argument(lua_State* state, int index);  // valid while the value is on the stack
// Overloads for optional arguments: return `otherwise` if the argument is missing or nil.
double number_argument(lua_State* state, int index, double otherwise);
int64_t integer_argument(lua_State* state, int index, int64_t otherwise);
bool boolean_argument(lua_State* state, int index, bool otherwise);
std::string_view text_argument(lua_State* state, int index, std::string_view otherwise);

// Raw access to a field of the table at `index`. Returns true and leaves the value on the stack, or returns false and
// pushes nothing if the field is nil.
bool push_field(lua_State* state, int index, const char* name);

// Like push_field(), but also searches the tables in the chain of __index metafields. No Lua code runs, so a table
// whose __index raises errors for unknown names is safe to search.
bool push_method(lua_State* state, int index, const char* name);

// Returns the string keys of the table at `index`, sorted.
std::vector<std::string> text_keys(lua_State* state, int index);

// Throws "what: … cannot name thing: …" if the store and its readers could not display the name.
void check_name(const std::string& name, std::string_view what, std::string_view thing);

// Returns the sorted keys of a table of metrics. Throws "what: …" for a key that is not a valid metric name, and for
// more keys than a run can sensibly record.
std::vector<std::string> metric_keys(lua_State* state, int index, std::string_view what);

// Returns whether the table at `index` has a key other than 1 … `size`, so that it is not a plain list; pushes that
// key.
bool push_stray_key(lua_State* state, int index, int64_t size);

// Returns the number of entries of the table at `index`, with keys of any type.
int64_t count_entries(lua_State* state, int index);

// Returns the length of the list at `index`. Throws "what is a list without gaps, got the key …; hint" if it has other
// keys.
int64_t list_size(lua_State* state, int index, std::string_view what, std::string_view hint = "");
// Like list_size(), for an argument of the called function.
int64_t list_argument_size(lua_State* state, int index);

// Throws "what: unknown entry 'x'; did you mean …" if the table at `index` has a key that is not in `known`.
void check_keys(lua_State* state, int index, std::string_view what, std::span<const std::string_view> known);

// Throws "whose 'name'; did you mean …", where `whose` is for example "acc has no". If no name is similar, the message
// continues with `otherwise`, or with all names.
[[noreturn]] void fail_unknown(std::string_view whose, std::string_view name, const std::vector<std::string>& names,
                               std::string_view otherwise = "");

// Returns the names of the rows of a table.
template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

// The table of options that is the last argument of a function.
class OptionTable {
 public:
  // Throws if the value at `index` is neither missing nor a table, or if the table has a key that is not in `known`.
  OptionTable(lua_State* state, int index, std::initializer_list<std::string_view> known);

  // Each getter throws "function: name is …, expected …" if the option has another type.
  double number(const char* name, double otherwise) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  bool flag(const char* name, bool otherwise) const;
  std::string text(const char* name, std::string_view otherwise) const;
  // Pushes the value and returns true, or returns false and pushes nothing if the option is missing.
  bool push(const char* name) const { return is_given_ && push_field(state_, index_, name); }

 private:
  template <class Type, class Take>
  Type get(const char* name, Type otherwise, const Take& take) const;

  lua_State* const state_;
  const int index_;
  const bool is_given_;
};

}  // namespace runner::lua
