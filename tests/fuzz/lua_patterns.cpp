// Lua patterns, against the functions of Lua itself. Input: pattern, byte 0x1f, subject, byte 0x1f, replacement.
#include <memory>
#include <string>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/patterns.h"
#include "tests/fuzz/target.h"
#include "tests/lua/pattern_calls.h"

namespace runner::fuzz {
namespace {

constexpr int64_t kSteps = 20'000;
constexpr size_t kLongest = 1000;  // of each text

using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;

State new_state(bool ours) {
  State state(luaL_newstate(), lua_close);
  luaL_openlibs(state.get());
  if (ours) lua::replace_pattern_functions(state.get(), kSteps);
  require(luaL_dostring(state.get(), lua::kPatternCalls) == LUA_OK, "the chunk does not run");
  return state;
}

std::string take(std::string& rest) {
  const size_t end = rest.find('\x1f');
  const std::string text = rest.substr(0, end);
  rest.erase(0, end == std::string::npos ? end : end + 1);
  return text.substr(0, kLongest);
}

std::string describe(lua_State* state, const std::string& pattern, const std::string& subject,
                     const std::string& replacement) {
  lua_getglobal(state, "calls");
  for (const std::string* text : {&subject, &pattern, &replacement}) {
    lua_pushlstring(state, text->data(), text->size());
  }
  lua_pushinteger(state, static_cast<lua_Integer>(pattern.size() % 5) - 2);
  lua_pushnil(state);
  const int status = lua_pcall(state, 5, 1, 0);
  size_t size = 0;
  const char* text = lua_tolstring(state, -1, &size);
  const std::string result(text, size);
  require(status == LUA_OK, "the calls fail: " + result);
  lua_settop(state, 0);
  return result;
}

}  // namespace

bool lua_patterns(Bytes input) {
  static const State ours = new_state(true), stock = new_state(false);
  std::string rest(input.begin(), input.end());
  const std::string pattern = take(rest), subject = take(rest), replacement = take(rest);
  const std::string result = describe(ours.get(), pattern, subject, replacement);
  // If our version ends within the budget, Lua's own ends soon too.
  if (result.find("is given up after") != std::string::npos) return false;
  const std::string wanted = describe(stock.get(), pattern, subject, replacement);
  require(result == wanted,
          fmt::format("pattern {:?}, subject {:?}:\n{}\nLua says:\n{}", pattern, subject, result, wanted));
  return result.starts_with("find = ");
}

}  // namespace runner::fuzz
