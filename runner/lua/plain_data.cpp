#include "runner/lua/plain_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

constexpr int kMaxDepth = 32;
// Instructions charged per written entry. A table that is referenced many times is written as many times.
constexpr int64_t kPlainEntry = 50;

std::string literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    plain ? result += c : result += fmt::format("\\{:03}", static_cast<unsigned char>(c));
  }
  return result + '"';
}

std::string number_text(lua_State* state) {
  if (lua_isinteger(state, -1)) {
    const lua_Integer value = lua_tointeger(state, -1);
    // The literal of the smallest integer would be parsed as a float.
    return value == std::numeric_limits<lua_Integer>::min() ? "-9223372036854775807-1" : std::to_string(value);
  }
  const double value = lua_tonumber(state, -1);
  if (std::isnan(value)) return "0/0";
  if (std::isinf(value)) return value > 0 ? "1/0" : "-1/0";
  return fmt::format("{:a}", value);
}

struct Key {
  bool is_text = false;
  lua_Integer number = 0;
  std::string text;

  bool operator<(const Key& other) const {
    if (is_text != other.is_text) return other.is_text;
    return is_text ? text < other.text : number < other.number;
  }
};

struct Words {
  const char *values, *tables;
};
constexpr Words kOfState{"a state cannot store; it stores numbers, strings, booleans and tables of them",
                         "a state stores tables"};
constexpr Words kOfExchange{
    "cannot be sent to other processes; numbers, strings, booleans and tables of them can, and in a custom loop "
    "tensors",
    "processes exchange tables"};

class Writer {
 public:
  Writer(lua_State* state, PlainUse use) : state_(state), words_(use == PlainUse::kState ? kOfState : kOfExchange) {}

  // Writes the value at the top of the stack.
  void write(const std::string& name, int depth) {
    const size_t limit = Runtime::of(state_).options().budget.memory_bytes;
    RUN_CHECK(
        text.size() <= limit, ErrorKind::kRun,
        "{}: its serialized size exceeds the {} MiB of memory of a hook; does it contain the same table many times?",
        name, limit >> 20);
    switch (lua_type(state_, -1)) {
      case LUA_TNIL: text += "nil"; return;
      case LUA_TBOOLEAN: text += lua_toboolean(state_, -1) != 0 ? "true" : "false"; return;
      case LUA_TNUMBER: text += number_text(state_); return;
      case LUA_TSTRING: {
        size_t size = 0;
        const char* bytes = lua_tolstring(state_, -1, &size);
        text += literal({bytes, size});
        return;
      }
      case LUA_TTABLE: write_table(name, depth); return;
      default: fail(ErrorKind::kRun, "{} is {}, which {}", name, type_name(state_, -1), words_.values);
    }
  }

  std::string text;

 private:
  void write_table(const std::string& name, int depth) {
    RUN_CHECK(depth < kMaxDepth, ErrorKind::kRun, "{} is nested more than {} tables deep: does a table contain itself?",
              name, kMaxDepth);
    RUN_CHECK(lua_checkstack(state_, 4) != 0, ErrorKind::kRun, "{}: the Lua stack is full", name);
    unseal(state_, -1);
    text += '{';
    const std::vector<Key> all = keys(name);
    Runtime::of(state_).spend(state_, kPlainEntry * std::ssize(all));
    for (const Key& key : all) {
      const std::string inner =
          key.is_text ? fmt::format("{}.{}", name, key.text) : fmt::format("{}[{}]", name, key.number);
      text += key.is_text ? fmt::format("[{}]=", literal(key.text)) : fmt::format("[{}]=", key.number);
      key.is_text ? lua_pushlstring(state_, key.text.data(), key.text.size())
                  : (lua_pushinteger(state_, key.number), nullptr);
      lua_rawget(state_, -2);
      write(inner, depth + 1);
      lua_pop(state_, 1);
      text += ',';
    }
    text += '}';
  }

  std::vector<Key> keys(const std::string& name) {
    std::vector<Key> keys;
    lua_pushnil(state_);
    while (lua_next(state_, -2) != 0) {
      lua_pop(state_, 1);
      if (lua_isinteger(state_, -1)) {
        keys.push_back({false, lua_tointeger(state_, -1), {}});
        continue;
      }
      RUN_CHECK(lua_type(state_, -1) == LUA_TSTRING, ErrorKind::kRun,
                "{} has a key that is {}; {} with texts and integers as keys", name, type_name(state_, -1),
                words_.tables);
      size_t size = 0;
      const char* bytes = lua_tolstring(state_, -1, &size);
      keys.push_back({true, 0, std::string(bytes, size)});
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  lua_State* const state_;
  const Words& words_;
};

}  // namespace

std::string plain_text(lua_State* state, int index, const std::string& name, PlainUse use) {
  Writer writer(state, use);
  lua_pushvalue(state, index);
  writer.write(name, 0);
  lua_pop(state, 1);
  return std::move(writer.text);
}

void push_plain(lua_State* state, const std::string& text) {
  const std::string code = "return " + text;
  RUN_CHECK(luaL_loadbufferx(state, code.data(), code.size(), "=state", "t") == LUA_OK, ErrorKind::kRun,
            "cannot read the hook's data in the state: {}", lua_tostring(state, -1));
  lua_newtable(state);  // an empty environment
  lua_setupvalue(state, -2, 1);
  Runtime::of(state).call(state, 0, 1);
}

}  // namespace runner::lua
