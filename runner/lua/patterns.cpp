// Called by Lua as it is, without bound(): errors leave through lua_error.  Nothing here owns memory or throws.
#include "runner/lua/patterns.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <lua.hpp>

static_assert(LUA_VERSION_NUM == 504, "patterns.cpp gives the results of Lua 5.4");

namespace runner::lua {
namespace {

using Byte = unsigned char;

constexpr size_t kNone = std::string_view::npos;  // no match
constexpr int kMaxDepth = 200;                    // both as Lua's own, so that the same patterns are refused
constexpr int kMaxCaptures = 32;

bool is_digit(Byte c) {
  return c >= '0' && c <= '9';
}
bool is_lower(Byte c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(Byte c) {
  return c >= 'A' && c <= 'Z';
}
bool is_alpha(Byte c) {
  return is_lower(c) || is_upper(c);
}
bool is_graph(Byte c) {
  return c > ' ' && c < 127;
}

// Whether `c` is in the class %letter; a letter that names no class stands for itself.
bool in_class(Byte c, Byte letter) {
  bool in = false;
  switch (is_upper(letter) ? letter - 'A' + 'a' : letter) {
    case 'a': in = is_alpha(c); break;
    case 'c': in = c < ' ' || c == 127; break;
    case 'd': in = is_digit(c); break;
    case 'g': in = is_graph(c); break;
    case 'l': in = is_lower(c); break;
    case 'p': in = is_graph(c) && !is_alpha(c) && !is_digit(c); break;
    case 's': in = c == ' ' || (c >= '\t' && c <= '\r'); break;
    case 'u': in = is_upper(c); break;
    case 'w': in = is_alpha(c) || is_digit(c); break;
    case 'x': in = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); break;
    case 'z': in = c == 0; break;  // not in the manual any more, but in Lua
    default: return letter == c;
  }
  return in != is_upper(letter);
}

// A part of the subject.
struct Span {
  size_t from, to;
};

// One call: a pattern, its subject, the captures of the match that is being tried, the steps so far.  Places are
// offsets of bytes; past the end both texts read as 0, as Lua's strings do.
class Matcher {
 public:
  Matcher(lua_State* state, std::string_view subject, std::string_view pattern, int64_t budget)
      : state_(state), subject_(subject), pattern_(pattern), budget_(budget), pause_(next_pause()) {}

  // The end of the match that begins at `from`, or kNone.
  size_t match_from(size_t from) {
    captures_ = 0;
    depth_ = 0;
    return match(from, 0);
  }

  // Pushes all captures, or the whole match if there are none; returns how many values that is.
  int push_captures(Span match) {
    const int count = std::max(captures_, 1);
    luaL_checkstack(state_, count, "too many captures");
    for (int i = 0; i < count; ++i) push_capture(i, match);
    return count;
  }
  // The same without the whole match.
  int push_only_captures(Span match) { return captures_ == 0 ? 0 : push_captures(match); }

  // Pushes capture `i`, counted from 0; without captures, 0 is the whole match.
  void push_capture(int i, Span match);

 private:
  // Where a capture begins, and its length: one of these two before and instead of a real one.
  static constexpr size_t kOpen = kNone;
  static constexpr size_t kPosition = kNone - 1;
  struct Capture {
    size_t from, length;
  };

  Byte subject_at(size_t s) const { return s < subject_.size() ? static_cast<Byte>(subject_[s]) : Byte{0}; }
  Byte pattern_at(size_t p) const { return p < pattern_.size() ? static_cast<Byte>(pattern_[p]) : Byte{0}; }

  // Each gives the end in the subject of a match of the pattern from `p` to its end, or kNone.
  size_t match(size_t s, size_t p);
  size_t match_items(size_t s, size_t p);
  size_t open_capture(size_t s, size_t p);
  size_t close_capture(size_t s, size_t p);
  size_t match_longest(size_t s, size_t p, size_t end);
  size_t match_shortest(size_t s, size_t p, size_t end);

  // Each gives the end in the subject of a match of one item of the pattern, or kNone.
  size_t match_balance(size_t s, size_t p);
  size_t match_back_reference(size_t s, Byte digit);

  size_t item_end(size_t p);
  bool item_fits(size_t s, size_t p, size_t end);
  bool set_fits(Byte c, size_t p, size_t end);
  bool at_frontier(size_t s, size_t p, size_t end);

  void spend(size_t steps) {
    steps_ += static_cast<int64_t>(steps);
    if (steps_ > pause_) pause();
  }
  int64_t next_pause() const { return std::min(budget_, steps_ + kPatternStepsPerHook); }
  void pause();
  void call_hook();
  void give_up();

  lua_State* state_;
  std::string_view subject_, pattern_;
  int64_t budget_;
  int64_t steps_ = 0;
  int64_t pause_;  // at the first step past it the hook is called, or the budget is spent
  int depth_ = 0;
  int captures_ = 0;
  Capture capture_[kMaxCaptures];
};
static_assert(std::is_trivially_destructible_v<Matcher>);

// ---- the budget

void Matcher::pause() {
  if (steps_ > budget_) give_up();
  call_hook();
  pause_ = next_pause();
}

void Matcher::call_hook() {
  const lua_Hook hook = lua_gethook(state_);
  if (hook == nullptr || (lua_gethookmask(state_) & LUA_MASKCOUNT) == 0) return;
  lua_Debug caller{};
  if (lua_getstack(state_, 1, &caller) == 0) lua_getstack(state_, 0, &caller);
  caller.event = LUA_HOOKCOUNT;
  caller.currentline = -1;
  luaL_checkstack(state_, LUA_MINSTACK, "no room for the hook");
  hook(state_, &caller);
}

// Pushes the first bytes of a text as a Lua program would write them.
const char* push_excerpt(lua_State* state, std::string_view text) {
  constexpr size_t kMost = 40;
  luaL_Buffer buffer;
  luaL_buffinit(state, &buffer);
  for (const char c : text.substr(0, kMost)) {
    if (is_graph(static_cast<Byte>(c)) || c == ' ') {
      luaL_addchar(&buffer, c);
    } else {
      const int value = static_cast<Byte>(c);
      luaL_addchar(&buffer, '\\');
      for (const int unit : {100, 10, 1}) luaL_addchar(&buffer, static_cast<char>('0' + value / unit % 10));
    }
  }
  if (text.size() > kMost) luaL_addstring(&buffer, "...");
  luaL_pushresult(&buffer);
  return lua_tostring(state, -1);
}

void Matcher::give_up() {
  const char* excerpt = push_excerpt(state_, pattern_);
  luaL_error(
      state_,
      "pattern '%s' is given up after %I steps on a string of %I bytes: its repeats can share that text out in too "
      "many ways; use fewer of them, or sets that exclude what comes after",
      excerpt, static_cast<LUAI_UACINT>(budget_), static_cast<LUAI_UACINT>(subject_.size()));
}

// ---- matching

size_t Matcher::match(size_t s, size_t p) {
  if (depth_ == kMaxDepth) luaL_error(state_, "pattern too complex");
  ++depth_;
  const size_t end = match_items(s, p);
  --depth_;
  return end;
}

size_t Matcher::match_items(size_t s, size_t p) {
  while (p < pattern_.size()) {
    spend(1);
    const Byte first = pattern_at(p), second = pattern_at(p + 1);
    if (first == '(') return open_capture(s, p + 1);
    if (first == ')') return close_capture(s, p + 1);
    if (first == '$' && p + 1 == pattern_.size()) return s == subject_.size() ? s : kNone;
    if (first == '%' && second == 'b') {
      s = match_balance(s, p + 2);
      p += 4;
    } else if (first == '%' && second == 'f') {
      if (pattern_at(p + 2) != '[') luaL_error(state_, "missing '[' after '%%f' in pattern");
      const size_t end = item_end(p + 2);
      if (!at_frontier(s, p + 2, end)) return kNone;
      p = end;
    } else if (first == '%' && is_digit(second)) {
      s = match_back_reference(s, second);
      p += 2;
    } else {
      const size_t end = item_end(p);
      const Byte repeat = pattern_at(end);
      const bool fits = item_fits(s, p, end);
      if (repeat == '*' || repeat == '?' || repeat == '-') {
        if (fits && repeat == '*') return match_longest(s, p, end);
        if (fits && repeat == '-') return match_shortest(s, p, end);
        if (fits) {
          const size_t with = match(s + 1, end + 1);
          if (with != kNone) return with;
        }
        p = end + 1;
      } else {
        if (!fits) return kNone;
        if (repeat == '+') return match_longest(s + 1, p, end);
        ++s;
        p = end;
      }
    }
    if (s == kNone) return kNone;
  }
  return s;
}

size_t Matcher::open_capture(size_t s, size_t p) {
  if (captures_ == kMaxCaptures) luaL_error(state_, "too many captures");
  const bool position = pattern_at(p) == ')';
  capture_[captures_++] = {s, position ? kPosition : kOpen};
  const size_t end = match(s, position ? p + 1 : p);
  if (end == kNone) --captures_;
  return end;
}

size_t Matcher::close_capture(size_t s, size_t p) {
  int i = captures_ - 1;
  while (i >= 0 && capture_[i].length != kOpen) --i;
  if (i < 0) luaL_error(state_, "invalid pattern capture");
  capture_[i].length = s - capture_[i].from;
  const size_t end = match(s, p);
  if (end == kNone) capture_[i].length = kOpen;
  return end;
}

// As often as the item fits, then once less until the rest of the pattern matches.
size_t Matcher::match_longest(size_t s, size_t p, size_t end) {
  size_t last = s;
  while (item_fits(last, p, end)) ++last;
  for (;; --last) {
    const size_t found = match(last, end + 1);
    if (found != kNone || last == s) return found;
  }
}

// Not at all, then once more until the rest of the pattern matches.
size_t Matcher::match_shortest(size_t s, size_t p, size_t end) {
  for (;; ++s) {
    const size_t found = match(s, end + 1);
    if (found != kNone || !item_fits(s, p, end)) return found;
  }
}

// `p` is at the two bytes after %b.
size_t Matcher::match_balance(size_t s, size_t p) {
  if (p + 1 >= pattern_.size()) luaL_error(state_, "malformed pattern (missing arguments to '%%b')");
  const Byte open = pattern_at(p), close = pattern_at(p + 1);
  if (s == subject_.size() || subject_at(s) != open) return kNone;
  size_t depth = 1;
  for (size_t i = s + 1; i < subject_.size(); ++i) {
    spend(1);
    if (subject_at(i) == close) {
      if (--depth == 0) return i + 1;
    } else if (subject_at(i) == open) {
      ++depth;
    }
  }
  return kNone;
}

size_t Matcher::match_back_reference(size_t s, Byte digit) {
  const int i = digit - '1';
  if (i < 0 || i >= captures_ || capture_[i].length == kOpen) {
    luaL_error(state_, "invalid capture index %%%d", i + 1);
  }
  const Capture& capture = capture_[i];
  if (capture.length > subject_.size() - s) return kNone;  // a position is: nothing is as long
  spend(capture.length);
  const bool same = subject_.substr(capture.from, capture.length) == subject_.substr(s, capture.length);
  return same ? s + capture.length : kNone;
}

// ---- single bytes

// The end of the item at `p`, without its repeat.  In a set, a bracket that comes first closes nothing.
size_t Matcher::item_end(size_t p) {
  const Byte first = pattern_at(p++);
  if (first == '%') {
    if (p == pattern_.size()) luaL_error(state_, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (first != '[') return p;
  const size_t begin = p;
  if (pattern_at(p) == '^') ++p;
  do {
    if (p == pattern_.size()) luaL_error(state_, "malformed pattern (missing ']')");
    if (pattern_at(p++) == '%' && p < pattern_.size()) ++p;
  } while (pattern_at(p) != ']');
  spend(p - begin);
  return p + 1;
}

bool Matcher::item_fits(size_t s, size_t p, size_t end) {
  spend(1);
  if (s >= subject_.size()) return false;
  const Byte c = subject_at(s);
  switch (pattern_at(p)) {
    case '.': return true;
    case '%': return in_class(c, pattern_at(p + 1));
    case '[': return set_fits(c, p, end);
    default: return pattern_at(p) == c;
  }
}

// Whether `c` is in the set from its bracket at `p` to behind the other at `end`.
bool Matcher::set_fits(Byte c, size_t p, size_t end) {
  const size_t last = end - 1;
  bool in = true;
  size_t i = p + 1;
  if (pattern_at(i) == '^') {
    in = false;
    ++i;
  }
  const size_t begin = i;
  bool found = false;
  for (; i < last && !found; ++i) {
    if (pattern_at(i) == '%') {
      found = in_class(c, pattern_at(++i));
    } else if (pattern_at(i + 1) == '-' && i + 2 < last) {
      found = pattern_at(i) <= c && c <= pattern_at(i + 2);
      i += 2;
    } else {
      found = pattern_at(i) == c;
    }
  }
  spend(i - begin);
  return found ? in : !in;
}

// Whether the set begins to hold at `s`.  Before the first and after the last byte of the subject there are zeros.
bool Matcher::at_frontier(size_t s, size_t p, size_t end) {
  const Byte before = s == 0 ? Byte{0} : subject_at(s - 1);
  return !set_fits(before, p, end) && set_fits(subject_at(s), p, end);
}

void Matcher::push_capture(int i, Span match) {
  if (i >= captures_) {
    if (i != 0) luaL_error(state_, "invalid capture index %%%d", i + 1);
    lua_pushlstring(state_, subject_.data() + match.from, match.to - match.from);
    return;
  }
  const Capture& capture = capture_[i];
  if (capture.length == kOpen) luaL_error(state_, "unfinished capture");
  if (capture.length == kPosition) {
    lua_pushinteger(state_, static_cast<lua_Integer>(capture.from) + 1);
  } else {
    lua_pushlstring(state_, subject_.data() + capture.from, capture.length);
  }
}

// ---- the functions

std::string_view string_argument(lua_State* state, int index) {
  size_t size = 0;
  const char* text = luaL_checklstring(state, index, &size);
  return {text, size};
}

// The optional argument `init` as an offset: from 1, negative from the end.  May lie past the end.
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

void push_place(lua_State* state, Span match) {
  lua_pushinteger(state, static_cast<lua_Integer>(match.from) + 1);
  lua_pushinteger(state, static_cast<lua_Integer>(match.to));
}

// memmem's time is linear; string_view::find's is not.
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

// string.find and, without the two places, string.match.
int search(lua_State* state, bool places) {
  const std::string_view subject = string_argument(state, 1);
  std::string_view pattern = string_argument(state, 2);
  size_t from = start_argument(state, 3, subject.size());
  if (from > subject.size()) {
    luaL_pushfail(state);
    return 1;
  }
  if (places && (lua_toboolean(state, 4) != 0 || pattern.find_first_of("^$*+?.([%-") == kNone)) {
    return find_plain(state, subject, pattern, from);
  }
  const bool anchored = take_anchor(pattern);
  Matcher matcher(state, subject, pattern, budget_of(state));
  for (; from <= subject.size(); ++from) {
    const size_t to = matcher.match_from(from);
    if (to != kNone) {
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

// What the iterator of gmatch remembers, after the budget.
constexpr int kSubject = lua_upvalueindex(2), kPattern = lua_upvalueindex(3);
constexpr int kNext = lua_upvalueindex(4);     // where the next match may begin
constexpr int kLastEnd = lua_upvalueindex(5);  // where the last one ended: an empty one there is no new one; -1: none

int next_match(lua_State* state) {
  const std::string_view subject = string_argument(state, kSubject);
  Matcher matcher(state, subject, string_argument(state, kPattern), budget_of(state));
  const auto last_end = static_cast<size_t>(lua_tointeger(state, kLastEnd));
  for (auto from = static_cast<size_t>(lua_tointeger(state, kNext)); from <= subject.size(); ++from) {
    const size_t to = matcher.match_from(from);
    if (to == kNone || to == last_end) continue;
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

// Adds the replacement string, with captures for %1 to %9 and the match for %0.
void add_string(lua_State* state, Matcher& matcher, luaL_Buffer& out, std::string_view subject, Span match) {
  size_t size = 0;
  const char* data = lua_tolstring(state, 3, &size);
  std::string_view text(data, size);
  for (size_t escape = text.find('%'); escape != kNone; escape = text.find('%')) {
    luaL_addlstring(&out, text.data(), escape);
    const Byte next = escape + 1 < text.size() ? static_cast<Byte>(text[escape + 1]) : Byte{0};
    if (next == '%') {
      luaL_addchar(&out, '%');
    } else if (next == '0') {
      luaL_addlstring(&out, subject.data() + match.from, match.to - match.from);
    } else if (is_digit(next)) {
      matcher.push_capture(next - '1', match);
      luaL_addvalue(&out);
    } else {
      luaL_error(state, "invalid use of '%%' in replacement string");
    }
    text.remove_prefix(escape + 2);
  }
  luaL_addlstring(&out, text.data(), text.size());
}

// Adds what a table or a function gives for the match; false or nil leaves the match.  Returns whether it was replaced.
bool add_value(lua_State* state, Matcher& matcher, luaL_Buffer& out, std::string_view subject, Span match) {
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

int gsub(lua_State* state) {
  const std::string_view subject = string_argument(state, 1);
  std::string_view pattern = string_argument(state, 2);
  const int type = lua_type(state, 3);
  const lua_Integer most = luaL_optinteger(state, 4, static_cast<lua_Integer>(subject.size()) + 1);
  const bool text = type == LUA_TSTRING || type == LUA_TNUMBER;
  luaL_argexpected(state, text || type == LUA_TTABLE || type == LUA_TFUNCTION, 3, "string/function/table");

  const bool anchored = take_anchor(pattern);
  Matcher matcher(state, subject, pattern, budget_of(state));
  luaL_Buffer out;
  luaL_buffinit(state, &out);
  size_t from = 0, last_end = kNone;
  lua_Integer count = 0;
  bool changed = false;
  while (count < most) {
    const size_t to = matcher.match_from(from);
    if (to != kNone && to != last_end) {
      ++count;
      if (text) {
        add_string(state, matcher, out, subject, {from, to});
        changed = true;
      } else {
        changed |= add_value(state, matcher, out, subject, {from, to});
      }
      from = last_end = to;
    } else if (from < subject.size()) {
      luaL_addchar(&out, subject[from]);
      ++from;
    } else {
      break;
    }
    if (anchored) break;
  }
  if (changed) {
    luaL_addlstring(&out, subject.data() + from, subject.size() - from);
    luaL_pushresult(&out);
  } else {
    lua_pushvalue(state, 1);
  }
  lua_pushinteger(state, count);
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
