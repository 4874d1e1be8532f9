// The matching behind Lua's pattern functions, with a budget of steps; patterns.h says why it is our own.
//
// Called by Lua without bound(): errors leave through lua_error.  Nothing here owns memory or throws.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "runner/lua/patterns.h"

namespace runner::lua {

inline constexpr size_t kNoMatch = std::string_view::npos;

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

  // The end of the match that begins at `from`, or kNoMatch.
  size_t match_from(size_t from) {
    captures_ = 0;
    depth_ = 0;
    return match(from, 0);
  }

  // Pushes all captures, or the whole match if there are none; returns how many values that is.
  int push_captures(Span match);
  // The same without the whole match.
  int push_only_captures(Span match) { return captures_ == 0 ? 0 : push_captures(match); }

  // Pushes capture `i`, counted from 0; without captures, 0 is the whole match.
  void push_capture(int i, Span match);

 private:
  // Where a capture begins, and its length: one of these two before and instead of a real one.
  static constexpr size_t kOpen = kNoMatch;
  static constexpr size_t kPosition = kNoMatch - 1;
  struct Capture {
    size_t from, length;
  };

  using Byte = unsigned char;
  static constexpr int kMaxCaptures = 32;  // as Lua's own, so that the same patterns are refused

  Byte subject_at(size_t s) const { return s < subject_.size() ? static_cast<Byte>(subject_[s]) : Byte{0}; }
  Byte pattern_at(size_t p) const { return p < pattern_.size() ? static_cast<Byte>(pattern_[p]) : Byte{0}; }

  // Each gives the end in the subject of a match of the pattern from `p` to its end, or kNoMatch.
  size_t match(size_t s, size_t p);
  size_t match_items(size_t s, size_t p);
  size_t open_capture(size_t s, size_t p);
  size_t close_capture(size_t s, size_t p);
  size_t match_longest(size_t s, size_t p, size_t end);
  size_t match_shortest(size_t s, size_t p, size_t end);

  // Where an item has led: to the end of the match, or to the next item `p`, to be matched at `s`.
  struct Step {
    size_t s, p = 0;
    bool is_end = true;
  };
  Step match_item(size_t s, size_t p);
  size_t match_frontier(size_t s, size_t p);

  // Each gives the end in the subject of a match of one item of the pattern, or kNoMatch.
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

}  // namespace runner::lua
