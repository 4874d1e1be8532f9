#include "runner/lua/arguments.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/bind.h"
#include "schema/base/json.h"
#include "schema/base/suggest.h"
#include "schema/base/utf8.h"

namespace runner::lua {

// ---- values in messages --------------------------------------------------------------------------------------------

std::string_view type_name(lua_State* state, int index) {
  const int type = luaL_getmetafield(state, index, "__name");
  if (type != LUA_TNIL) {
    const char* const name = type == LUA_TSTRING ? lua_tostring(state, -1) : nullptr;  // owned by the metatable
    lua_pop(state, 1);
    if (name != nullptr) return name;
  }
  return lua_isnone(state, index) ? "missing" : luaL_typename(state, index);
}

void push_text_of(lua_State* state, int index) {
  const int type = lua_type(state, index);
  const bool is_plain = type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
  const bool has_text = luaL_getmetafield(state, index, "__tostring") != LUA_TNIL;
  if (has_text) lua_pop(state, 1);
  if (is_plain || has_text) {
    luaL_tolstring(state, index, nullptr);
    return;
  }
  const std::string_view name = type_name(state, index);
  lua_pushlstring(state, name.data(), name.size());
}

std::string text_of(lua_State* state, int index) {
  push_text_of(state, index);
  std::string text(text_argument(state, -1));
  lua_pop(state, 1);
  return text;
}

std::string shown(double number) {
  return std::isnan(number) ? "NaN" : fmt::to_string(number);
}

bool is_method_call(lua_State* state) {
  lua_Debug frame{};
  if (lua_getstack(state, 0, &frame) == 0) return false;
  lua_getinfo(state, "n", &frame);
  return std::string_view(frame.namewhat) == "method";
}

int argument_number(lua_State* state, int index) {
  return index > 1 && is_method_call(state) ? index - 1 : index;
}

void bad_argument(lua_State* state, int index, std::string_view expected) {
  fail(ErrorKind::kRun, "{}: argument {} is {}, expected {}", called_as(state), argument_number(state, index),
       type_name(state, index), expected);
}

void bad_option(lua_State* state, std::string_view option, std::string_view expected) {
  fail(ErrorKind::kRun, "{}: {} is {}, expected {}", called_as(state), option, type_name(state, -1), expected);
}

std::string_view key_argument(lua_State* state, std::string_view what) {
  if (lua_type(state, 2) == LUA_TSTRING) return text_argument(state, 2);
  fail(ErrorKind::kRun, "{} has no entry [{}]; its entries have names", what, text_of(state, 2));
}

// ---- arguments -----------------------------------------------------------------------------------------------------

std::optional<int64_t> integer_at(lua_State* state, int index) {
  int exact = 0;
  const lua_Integer value = lua_tointegerx(state, index, &exact);
  if (exact == 0 || lua_type(state, index) != LUA_TNUMBER) return std::nullopt;
  return value;
}

double number_argument(lua_State* state, int index) {
  if (lua_type(state, index) != LUA_TNUMBER) bad_argument(state, index, "a number");
  return lua_tonumber(state, index);
}

int64_t integer_argument(lua_State* state, int index) {
  const std::optional<int64_t> value = integer_at(state, index);
  if (!value) bad_argument(state, index, "an integer");
  return *value;
}

double number_argument(lua_State* state, int index, double otherwise) {
  return lua_isnoneornil(state, index) ? otherwise : number_argument(state, index);
}

int64_t integer_argument(lua_State* state, int index, int64_t otherwise) {
  return lua_isnoneornil(state, index) ? otherwise : integer_argument(state, index);
}

bool boolean_argument(lua_State* state, int index, bool otherwise) {
  if (lua_isnoneornil(state, index)) return otherwise;
  if (!lua_isboolean(state, index)) bad_argument(state, index, "true or false");
  return lua_toboolean(state, index) != 0;
}

std::string_view text_argument(lua_State* state, int index) {
  if (lua_type(state, index) != LUA_TSTRING) bad_argument(state, index, "a string");
  size_t size = 0;
  const char* text = lua_tolstring(state, index, &size);
  return {text, size};
}

std::string_view text_argument(lua_State* state, int index, std::string_view otherwise) {
  return lua_isnoneornil(state, index) ? otherwise : text_argument(state, index);
}

bool push_field(lua_State* state, int index, const char* name) {
  index = lua_absindex(state, index);
  lua_pushstring(state, name);
  if (lua_rawget(state, index) != LUA_TNIL) return true;
  lua_pop(state, 1);
  return false;
}

bool push_method(lua_State* state, int index, const char* name) {
  constexpr int kMaxTables = 100;  // length of the chain, which may be a cycle
  lua_pushvalue(state, index);
  for (int i = 0; i < kMaxTables && lua_istable(state, -1); ++i) {
    const bool found = push_field(state, -1, name);
    if (!found && luaL_getmetafield(state, -1, "__index") == LUA_TNIL) break;
    lua_remove(state, -2);
    if (found) return true;
  }
  lua_pop(state, 1);
  return false;
}

std::vector<std::string> text_keys(lua_State* state, int index) {
  index = lua_absindex(state, index);
  std::vector<std::string> keys;
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    if (lua_type(state, -1) == LUA_TSTRING) keys.emplace_back(text_argument(state, -1));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void check_name(const std::string& name, std::string_view what, std::string_view thing) {
  constexpr size_t kLongest = 200;  // bytes
  const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  if (!name.empty() && name.size() <= kLongest && plain && is_utf8(name)) return;
  std::string shown = json::compact(name);
  if (name.size() > kLongest) shown = fmt::format("a string of {} bytes", name.size());
  fail(ErrorKind::kRun, "{}: {} is not a valid name for {}: expected 1 to {} bytes of UTF-8 on one line", what, shown,
       thing, kLongest);
}

std::vector<std::string> metric_keys(lua_State* state, int index, std::string_view what) {
  constexpr int64_t kMost = 10'000;
  index = lua_absindex(state, index);
  const int64_t count = count_entries(state, index);
  RUN_CHECK(count <= kMost, ErrorKind::kRun, "{}: {} metrics, expected at most {}", what, count, kMost);
  lua_pushnil(state);
  for (; lua_next(state, index) != 0; lua_pop(state, 1))
    RUN_CHECK(lua_type(state, -2) == LUA_TSTRING, ErrorKind::kRun,
              "{}: the name of a metric is a {}, expected a string: {{name = value}}", what, type_name(state, -2));
  std::vector<std::string> keys = text_keys(state, index);
  for (const std::string& key : keys) check_name(key, what, "a metric");
  return keys;
}

bool push_stray_key(lua_State* state, int index, int64_t size) {
  index = lua_absindex(state, index);
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    const bool in_list = lua_isinteger(state, -1) && lua_tointeger(state, -1) >= 1 && lua_tointeger(state, -1) <= size;
    if (in_list) continue;
    lua_pushvalue(state, -1);  // a copy, because messages convert it to a string in place
    lua_remove(state, -2);
    return true;
  }
  return false;
}

int64_t count_entries(lua_State* state, int index) {
  index = lua_absindex(state, index);
  int64_t count = 0;
  lua_pushnil(state);
  for (; lua_next(state, index) != 0; ++count) lua_pop(state, 1);
  return count;
}

int64_t list_size(lua_State* state, int index, std::string_view what, std::string_view hint) {
  const auto size = static_cast<int64_t>(lua_rawlen(state, index));
  if (!push_stray_key(state, index, size)) return size;
  fail(ErrorKind::kRun, "{}: expected a list without gaps, got the key {}{}{}", what, text_of(state, -1),
       hint.empty() ? "" : "; ", hint);
}

int64_t list_argument_size(lua_State* state, int index) {
  return list_size(state, index, fmt::format("{}: argument {}", called_as(state), argument_number(state, index)));
}

void fail_unknown(std::string_view whose, std::string_view name, const std::vector<std::string>& names,
                  std::string_view otherwise) {
  const std::string all = fmt::format("it has {}", fmt::join(names, ", "));
  fail(ErrorKind::kRun, "{} '{}'; {}", whose, name,
       schema::did_you_mean(name, names, otherwise.empty() ? all : std::string(otherwise)));
}

void check_keys(lua_State* state, int index, std::string_view what, std::span<const std::string_view> known) {
  index = lua_absindex(state, index);
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    if (lua_type(state, -1) != LUA_TSTRING) {
      lua_pushvalue(state, -1);
      const std::string key = lua_tostring(state, -1) != nullptr ? lua_tostring(state, -1) : "?";
      fail(ErrorKind::kRun, "{}: unknown entry [{}]", what, key);
    }
    const std::string key = lua_tostring(state, -1);
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    fail(ErrorKind::kRun, "{}: unknown entry '{}'; {}", what, key,
         schema::did_you_mean(key, names, fmt::format("it knows {}", fmt::join(names, ", "))));
  }
}

// ---- options -------------------------------------------------------------------------------------------------------

OptionTable::OptionTable(lua_State* state, int index, std::initializer_list<std::string_view> known)
    : state_(state), index_(index), is_given_(!lua_isnoneornil(state, index)) {
  if (!is_given_) return;
  if (!lua_istable(state, index)) bad_argument(state, index, "a table of options");
  check_keys(state, index, called_as(state), {known.begin(), known.size()});
}

template <class Type, class Take>
Type OptionTable::get(const char* name, Type otherwise, const Take& take) const {
  if (!push(name)) return otherwise;
  Type value = take();
  lua_pop(state_, 1);
  return value;
}

double OptionTable::number(const char* name, double otherwise) const {
  return get(name, otherwise, [&] {
    if (lua_type(state_, -1) != LUA_TNUMBER) bad_option(state_, name, "a number");
    return static_cast<double>(lua_tonumber(state_, -1));
  });
}

int64_t OptionTable::integer(const char* name, int64_t otherwise) const {
  return get(name, otherwise, [&] {
    const std::optional<int64_t> value = integer_at(state_, -1);
    if (!value) bad_option(state_, name, "an integer");
    return *value;
  });
}

bool OptionTable::flag(const char* name, bool otherwise) const {
  return get(name, otherwise, [&] {
    if (!lua_isboolean(state_, -1)) bad_option(state_, name, "true or false");
    return lua_toboolean(state_, -1) != 0;
  });
}

std::string OptionTable::text(const char* name, std::string_view otherwise) const {
  return get(name, std::string(otherwise), [&] {
    if (lua_type(state_, -1) != LUA_TSTRING) bad_option(state_, name, "a string");
    return std::string(text_argument(state_, -1));
  });
}

}  // namespace runner::lua
