#include "runner/lua/pattern_matcher.h"

#include <lua.hpp>

static_assert(LUA_VERSION_NUM == 504, "pattern_matcher.cpp gives the results of Lua 5.4");

namespace runner::lua {
namespace {

using Byte = unsigned char;

constexpr int kMaxMatchDepth = 200;  // same limit as Lua, so that the same patterns are rejected

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

// Returns whether `c` is in the class %letter. A letter that names no class matches itself.
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
    case 'z': in = c == 0; break;  // no longer in the manual, but still in Lua
    default: return letter == c;
  }
  return in != is_upper(letter);
}

}  // namespace

// ---- the budget ----------------------------------------------------------------------------------------------------

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
  luaL_checkstack(state_, LUA_MINSTACK, "not enough memory for the hook");
  hook(state_, &caller);
}

namespace {

// Pushes the first bytes of a text, escaped as in Lua source.
const char* push_excerpt(lua_State* state, std::string_view text) {
  constexpr size_t kMaxShown = 40;
  luaL_Buffer buffer;
  luaL_buffinit(state, &buffer);
  for (const char c : text.substr(0, kMaxShown)) {
    if (is_graph(static_cast<Byte>(c)) || c == ' ') {
      luaL_addchar(&buffer, c);
    } else {
      const int value = static_cast<Byte>(c);
      luaL_addchar(&buffer, '\\');
      for (const int unit : {100, 10, 1}) luaL_addchar(&buffer, static_cast<char>('0' + value / unit % 10));
    }
  }
  if (text.size() > kMaxShown) luaL_addstring(&buffer, "...");
  luaL_pushresult(&buffer);
  return lua_tostring(state, -1);
}

}  // namespace

void Matcher::give_up() {
  const char* excerpt = push_excerpt(state_, pattern_);
  luaL_error(state_,
             "pattern '%s' aborted after %I steps on a string of %I bytes: excessive backtracking of its repetitions; "
             "use fewer repetitions, or sets that exclude the text that follows",
             excerpt, static_cast<LUAI_UACINT>(budget_), static_cast<LUAI_UACINT>(subject_.size()));
}

// ---- matching ------------------------------------------------------------------------------------------------------

size_t Matcher::match(size_t s, size_t p) {
  if (depth_ == kMaxMatchDepth) luaL_error(state_, "pattern too complex");
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
    if (first == '$' && p + 1 == pattern_.size()) return s == subject_.size() ? s : kNoMatch;
    if (first == '%' && second == 'b') {
      s = match_balance(s, p + 2);
      p += 4;
    } else if (first == '%' && second == 'f') {
      p = match_frontier(s, p + 2);
      if (p == kNoMatch) return kNoMatch;
    } else if (first == '%' && is_digit(second)) {
      s = match_back_reference(s, second);
      p += 2;
    } else {
      const Step step = match_item(s, p);
      if (step.is_end) return step.s;
      s = step.s;
      p = step.p;
    }
    if (s == kNoMatch) return kNoMatch;
  }
  return s;
}

// Matches an item of one byte with its repetition.
Matcher::Step Matcher::match_item(size_t s, size_t p) {
  const size_t end = item_end(p);
  const Byte repeat = pattern_at(end);
  const bool fits = item_fits(s, p, end);
  if (repeat == '*' || repeat == '?' || repeat == '-') {
    if (fits && repeat == '*') return {match_longest(s, p, end)};
    if (fits && repeat == '-') return {match_shortest(s, p, end)};
    const size_t with = fits ? match(s + 1, end + 1) : kNoMatch;
    if (with != kNoMatch) return {with};
    return {s, end + 1, false};
  }
  if (!fits) return {kNoMatch};
  if (repeat == '+') return {match_longest(s + 1, p, end)};
  return {s + 1, end, false};
}

// `p`: position of the set after %f. Returns the position after the set, or kNoMatch.
size_t Matcher::match_frontier(size_t s, size_t p) {
  if (pattern_at(p) != '[') luaL_error(state_, "missing '[' after '%%f' in pattern");
  const size_t end = item_end(p);
  return at_frontier(s, p, end) ? end : kNoMatch;
}

size_t Matcher::open_capture(size_t s, size_t p) {
  if (captures_ == kMaxCaptures) luaL_error(state_, "too many captures");
  const bool position = pattern_at(p) == ')';
  capture_[captures_++] = {s, position ? kPosition : kOpen};
  const size_t end = match(s, position ? p + 1 : p);
  if (end == kNoMatch) --captures_;
  return end;
}

size_t Matcher::close_capture(size_t s, size_t p) {
  int i = captures_ - 1;
  while (i >= 0 && capture_[i].length != kOpen) --i;
  if (i < 0) luaL_error(state_, "invalid pattern capture");
  capture_[i].length = s - capture_[i].from;
  const size_t end = match(s, p);
  if (end == kNoMatch) capture_[i].length = kOpen;
  return end;
}

// Greedy repetition: matches the item as often as possible, then backtracks until the rest of the pattern matches.
size_t Matcher::match_longest(size_t s, size_t p, size_t end) {
  size_t last = s;
  while (item_fits(last, p, end)) ++last;
  for (;; --last) {
    const size_t found = match(last, end + 1);
    if (found != kNoMatch || last == s) return found;
  }
}

// Lazy repetition: starts with no match of the item and adds one until the rest of the pattern matches.
size_t Matcher::match_shortest(size_t s, size_t p, size_t end) {
  for (;; ++s) {
    const size_t found = match(s, end + 1);
    if (found != kNoMatch || !item_fits(s, p, end)) return found;
  }
}

// `p`: position of the two bytes after %b.
size_t Matcher::match_balance(size_t s, size_t p) {
  if (p + 1 >= pattern_.size()) luaL_error(state_, "malformed pattern (missing arguments to '%%b')");
  const Byte open = pattern_at(p), close = pattern_at(p + 1);
  if (s == subject_.size() || subject_at(s) != open) return kNoMatch;
  size_t depth = 1;
  for (size_t i = s + 1; i < subject_.size(); ++i) {
    spend(1);
    if (subject_at(i) == close) {
      if (--depth == 0) return i + 1;
    } else if (subject_at(i) == open) {
      ++depth;
    }
  }
  return kNoMatch;
}

size_t Matcher::match_back_reference(size_t s, Byte digit) {
  const int i = digit - '1';
  if (i < 0 || i >= captures_ || capture_[i].length == kOpen) {
    luaL_error(state_, "invalid capture index %%%d", i + 1);
  }
  const Capture& capture = capture_[i];
  if (capture.length > subject_.size() - s) return kNoMatch;  // true for a position capture, whose length is huge
  spend(capture.length);
  const bool same = subject_.substr(capture.from, capture.length) == subject_.substr(s, capture.length);
  return same ? s + capture.length : kNoMatch;
}

// ---- single bytes --------------------------------------------------------------------------------------------------

// Returns the end of the item at `p`, without its repetition. A bracket at the beginning of a set does not close it.
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

// Returns whether `c` is in the set that begins with the bracket at `p` and ends before `end`.
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

// Returns whether the byte at `s` is in the set and the byte before it is not. The subject is surrounded by zero bytes.
bool Matcher::at_frontier(size_t s, size_t p, size_t end) {
  const Byte before = s == 0 ? Byte{0} : subject_at(s - 1);
  return !set_fits(before, p, end) && set_fits(subject_at(s), p, end);
}

int Matcher::push_captures(ByteRange match) {
  const int count = std::max(captures_, 1);
  luaL_checkstack(state_, count, "too many captures");
  for (int i = 0; i < count; ++i) push_capture(i, match);
  return count;
}

void Matcher::push_capture(int i, ByteRange match) {
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

}  // namespace runner::lua
