// Lua calls these functions directly, without bound(): errors leave through lua_error. Therefore nothing here owns
// memory or throws.
#include "runner/lua/patterns.h"

#include <cstring>
#include <string_view>

#include <lua.hpp>

#include "runner/lua/pattern_matcher.h"

namespace runner::lua {
namespace {

std::string_view string_argument(lua_State* state, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(state, index, &size);
  return {text, size};
}

// Returns the optional argument `init` as an offset. It counts from 1, or from the end if negative. The result may
// exceed `size`.
size_t start_argument(lua_State* state, int index, size_t size) {
  const lua_Integer init = luaL_optinteger(state, index, 1);
  if (init > 0) return static_cast<size_t>(init) - 1;
  const auto length = static_cast<lua_Integer>(size);
  return init == 0 || init < -length ? 0 : static_cast<size_t>(length + init);
}

int64_t budget_of(lua_State* state) {
  return lua_tointeger(state, lua_upvalueindex(1));
}

bool take_anchor(std::string_view& pattern) {
  if (pattern.empty() || pattern.front() != '^') return false;
  pattern.remove_prefix(1);
  return true;
}

void push_place(lua_State* state, ByteRange match) {
  lua_pushinteger(state, static_cast<lua_Integer>(match.from) + 1);
  lua_pushinteger(state, static_cast<lua_Integer>(match.to));
}

// Uses memmem because its time is linear, unlike string_view::find.
int find_plain(lua_State* state, std::string_view subject, std::string_view text, size_t from) {
  size_t at = from;
  if (!text.empty()) {
    const void* found = memmem(subject.data() + from, subject.size() - from, text.data(), text.size());
    if (found == nullptr) {
      luaL_pushfail(state);
      return 1;
    }
    at = static_cast<size_t>(static_cast<const char*>(found) - subject.data());
  }
  push_place(state, {at, at + text.size()});
  return 2;
}

// string.find; with `places` false, string.match, which does not return the positions.
int search(lua_State* state, bool places) {
  const std::string_view subject = string_argument(state, 1);
  std::string_view pattern = string_argument(state, 2);
  size_t from = start_argument(state, 3, subject.size());
  if (from > subject.size()) {
    luaL_pushfail(state);
    return 1;
  }
  if (places && (lua_toboolean(state, 4) != 0 || pattern.find_first_of("^$*+?.([%-") == kNoMatch)) {
    return find_plain(state, subject, pattern, from);
  }
  const bool anchored = take_anchor(pattern);
  Matcher matcher(state, subject, pattern, budget_of(state));
  for (; from <= subject.size(); ++from) {
    const size_t to = matcher.match_from(from);
    if (to != kNoMatch) {
      if (!places) return matcher.push_captures({from, to});
      push_place(state, {from, to});
      return 2 + matcher.push_only_captures({from, to});
    }
    if (anchored) break;
  }
  luaL_pushfail(state);
  return 1;
}

int find(lua_State* state) {
  return search(state, true);
}
int match(lua_State* state) {
  return search(state, false);
}

// Upvalues of the iterator of gmatch, after the budget.
constexpr int kSubject = lua_upvalueindex(2), kPattern = lua_upvalueindex(3);
constexpr int kNext = lua_upvalueindex(4);     // where the next match may begin
constexpr int kLastEnd = lua_upvalueindex(5);  // end of the previous match, at which an empty match does not count; -1:
                                               // none

int next_match(lua_State* state) {
  const std::string_view subject = string_argument(state, kSubject);
  Matcher matcher(state, subject, string_argument(state, kPattern), budget_of(state));
  const auto last_end = static_cast<size_t>(lua_tointeger(state, kLastEnd));
  for (auto from = static_cast<size_t>(lua_tointeger(state, kNext)); from <= subject.size(); ++from) {
    const size_t to = matcher.match_from(from);
    if (to == kNoMatch || to == last_end) continue;
    for (const int upvalue : {kNext, kLastEnd}) {
      lua_pushinteger(state, static_cast<lua_Integer>(to));
      lua_replace(state, upvalue);
    }
    return matcher.push_captures({from, to});
  }
  return 0;
}

int gmatch(lua_State* state) {
  const size_t size = string_argument(state, 1).size();
  string_argument(state, 2);
  const size_t from = start_argument(state, 3, size);
  lua_settop(state, 2);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_insert(state, 1);
  lua_pushinteger(state, static_cast<lua_Integer>(from));
  lua_pushinteger(state, -1);
  lua_pushcclosure(state, next_match, 5);
  return 1;
}

// Adds the replacement string, with %1 to %9 replaced by captures and %0 by the match.
void add_string(lua_State* state, Matcher& matcher, luaL_Buffer& out, std::string_view subject, ByteRange match) {
  size_t size = 0;
  const char* data = lua_tolstring(state, 3, &size);
  std::string_view text(data, size);
  for (size_t escape = text.find('%'); escape != kNoMatch; escape = text.find('%')) {
    luaL_addlstring(&out, text.data(), escape);
    const char next = escape + 1 < text.size() ? text[escape + 1] : '\0';
    if (next == '%') {
      luaL_addchar(&out, '%');
    } else if (next == '0') {
      luaL_addlstring(&out, subject.data() + match.from, match.to - match.from);
    } else if (next >= '1' && next <= '9') {
      matcher.push_capture(next - '1', match);
      luaL_addvalue(&out);
    } else {
      luaL_error(state, "invalid use of '%%' in replacement string");
    }
    text.remove_prefix(escape + 2);
  }
  luaL_addlstring(&out, text.data(), text.size());
}

// Adds the value that a table or function has for the match. If it is false or nil, adds the match itself. Returns
// whether the match was replaced.
bool add_value(lua_State* state, Matcher& matcher, luaL_Buffer& out, std::string_view subject, ByteRange match) {
  if (lua_istable(state, 3)) {
    matcher.push_capture(0, match);
    lua_gettable(state, 3);
  } else {
    lua_pushvalue(state, 3);
    lua_call(state, matcher.push_captures(match), 1);
  }
  if (lua_toboolean(state, -1) == 0) {
    lua_pop(state, 1);
    luaL_addlstring(&out, subject.data() + match.from, match.to - match.from);
    return false;
  }
  if (lua_isstring(state, -1) == 0) {
    luaL_error(state, "invalid replacement value (a %s)", luaL_typename(state, -1));
  }
  luaL_addvalue(&out);
  return true;
}

// State of gsub.
struct Substitution {
  lua_State* state;
  std::string_view subject;
  Matcher matcher;
  luaL_Buffer& out;
  size_t from = 0;  // where the next match may begin
  lua_Integer count = 0;
  bool changed = false;
};

void add_replacement(Substitution& to, ByteRange match) {
  ++to.count;
  if (lua_isstring(to.state, 3) != 0) {
    add_string(to.state, to.matcher, to.out, to.subject, match);
    to.changed = true;
  } else {
    to.changed |= add_value(to.state, to.matcher, to.out, to.subject, match);
  }
  to.from = match.to;
}

// Processes the subject until `most` matches are replaced. If `anchored`, tries a match only at the beginning.
void substitute(Substitution& to, lua_Integer most, bool anchored) {
  size_t last_end = kNoMatch;
  while (to.count < most) {
    const size_t end = to.matcher.match_from(to.from);
    if (end != kNoMatch && end != last_end) {
      add_replacement(to, {to.from, end});
      last_end = end;
    } else if (to.from < to.subject.size()) {
      luaL_addchar(&to.out, to.subject[to.from]);
      ++to.from;
    } else {
      return;
    }
    if (anchored) return;
  }
}

int gsub(lua_State* state) {
  const std::string_view subject = string_argument(state, 1);
  std::string_view pattern = string_argument(state, 2);
  const int type = lua_type(state, 3);
  const lua_Integer most = luaL_optinteger(state, 4, static_cast<lua_Integer>(subject.size()) + 1);
  const bool text = type == LUA_TSTRING || type == LUA_TNUMBER;
  luaL_argexpected(state, text || type == LUA_TTABLE || type == LUA_TFUNCTION, 3, "string/function/table");

  const bool anchored = take_anchor(pattern);
  luaL_Buffer out;
  luaL_buffinit(state, &out);
  Substitution to{
      .state = state, .subject = subject, .matcher = {state, subject, pattern, budget_of(state)}, .out = out};
  substitute(to, most, anchored);
  if (to.changed) {
    luaL_addlstring(&out, subject.data() + to.from, subject.size() - to.from);
    luaL_pushresult(&out);
  } else {
    lua_pushvalue(state, 1);
  }
  lua_pushinteger(state, to.count);
  return 2;
}

}  // namespace

void replace_pattern_functions(lua_State* state, int64_t budget) {
  static constexpr luaL_Reg kFunctions[] = {
      {"find", find}, {"match", match}, {"gmatch", gmatch}, {"gsub", gsub}, {nullptr, nullptr}};
  lua_getglobal(state, "string");
  lua_pushinteger(state, budget);
  luaL_setfuncs(state, kFunctions, 1);
  lua_pop(state, 1);
}

}  // namespace runner::lua
