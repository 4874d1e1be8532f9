// Matcher of Lua patterns with a budget of steps. patterns.h explains why there is our own implementation.
//
// Lua calls this code without bound(): errors leave through lua_error. Therefore nothing here owns memory or throws.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "runner/lua/patterns.h"

namespace runner::lua {

inline constexpr size_t kNoMatch = std::string_view::npos;

// A range of bytes of the subject.
struct ByteRange {
  size_t from, to;
};

// One call: a pattern, its subject, the captures of the current attempt, and the steps so far. Positions are byte
// offsets. After its end, each text reads as zero bytes, like Lua's strings.
class Matcher {
 public:
  Matcher(lua_State* state, std::string_view subject, std::string_view pattern, int64_t budget)
      : state_(state), subject_(subject), pattern_(pattern), budget_(budget), pause_(next_pause()) {}

  // Returns the end of the match that begins at `from`, or kNoMatch.
  size_t match_from(size_t from) {
    captures_ = 0;
    depth_ = 0;
    return match(from, 0);
  }

  // Pushes all captures, or the whole match if there are none. Returns the number of values pushed.
  int push_captures(ByteRange match);
  // Like push_captures(), but pushes nothing if there are no captures.
  int push_only_captures(ByteRange match) { return captures_ == 0 ? 0 : push_captures(match); }

  // Pushes capture `i`, counted from 0. If there are no captures, capture 0 is the whole match.
  void push_capture(int i, ByteRange match);

 private:
  // Begin and length of a capture. The length is kOpen until the capture is closed, and kPosition for a position
  // capture `()`.
  static constexpr size_t kOpen = kNoMatch;
  static constexpr size_t kPosition = kNoMatch - 1;
  struct Capture {
    size_t from, length;
  };

  using Byte = unsigned char;
  static constexpr int kMaxCaptures = 32;  // same limit as Lua, so that the same patterns are rejected

  Byte subject_at(size_t s) const { return s < subject_.size() ? static_cast<Byte>(subject_[s]) : Byte{0}; }
  Byte pattern_at(size_t p) const { return p < pattern_.size() ? static_cast<Byte>(pattern_[p]) : Byte{0}; }

  // Each matches the pattern from `p` to its end, and returns the end of the match in the subject, or kNoMatch.
  size_t match(size_t s, size_t p);
  size_t match_items(size_t s, size_t p);
  size_t open_capture(size_t s, size_t p);
  size_t close_capture(size_t s, size_t p);
  size_t match_longest(size_t s, size_t p, size_t end);
  size_t match_shortest(size_t s, size_t p, size_t end);

  // Result of one item: the end of the whole match if `is_end`, else the next item `p`, to be matched at `s`.
  struct Step {
    size_t s, p = 0;
    bool is_end = true;
  };
  Step match_item(size_t s, size_t p);
  size_t match_frontier(size_t s, size_t p);

  // Each matches one item of the pattern, and returns the end of the match in the subject, or kNoMatch.
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
  int64_t pause_;  // number of steps after which pause() calls the hook or checks the budget
  int depth_ = 0;
  int captures_ = 0;
  Capture capture_[kMaxCaptures];
};
static_assert(std::is_trivially_destructible_v<Matcher>);

}  // namespace runner::lua
