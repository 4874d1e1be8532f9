// What a state of Lua uses: memory as it is allocated, and work, counted in instructions, of the call under way.  Once
// either is spent, or the run is over, every instruction is an error, so that no pcall outlives it.
//
// As the state: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

struct lua_Debug;
struct lua_State;

namespace runner::lua {

struct Budget {
  size_t memory_bytes = size_t{256} << 20;
  int64_t instructions = 1'000'000'000;  // of one call, with what spend() adds to them; about ten seconds
  int64_t pattern_steps = 10'000'000;    // of one string.find, match, gmatch step or gsub
};

class WorkMeter {
 public:
  // Lua's own text where there is no memory, which it keeps ready.
  static constexpr const char* kNoMemory = "not enough memory";

  explicit WorkMeter(const Budget& budget) : budget_(budget) {}

  // Allocates for `state`, which is null until it is made; null makes Lua collect, then fail.
  void* allocate(lua_State* state, void* block, size_t old_size, size_t new_size);
  bool is_half_full() const { return used_ > budget_.memory_bytes / 2; }

  // Between these a call is under way.
  void enter() { ++depth_; }
  void leave() { --depth_; }
  int depth() const { return depth_; }

  // A fresh budget.
  void refill(lua_State* state);
  // Counts so many instructions more.  Raises a Lua error where the budget is spent.
  void spend(lua_State* state, int64_t instructions);
  // Asked while a call is under way: whether it should come to its end, for which it has a tenth of its budget then.
  std::function<bool()> interrupted;

  // From now on every instruction is the error `text`, until forget_end().
  void end(lua_State* state, std::string text);
  void forget_end() { end_.reset(); }
  // Null: nothing has ended the run.
  const std::string* ended() const { return end_ ? &*end_ : nullptr; }

 private:
  static void on_count(lua_State* state, lua_Debug* frame);
  void* refuse(lua_State* state, size_t size);
  void spend_bytes(lua_State* state, size_t bytes);
  void look(lua_State* state);

  const Budget budget_;
  size_t used_ = 0;        // bytes
  size_t refused_ = 0;     // the newest request that there was no memory for, in bytes; 0: it was helped
  int64_t of_call_ = 0;    // what the call under way has in all, in instructions
  int64_t left_ = 0;       // of it
  int64_t next_look_ = 0;  // at so many left
  int64_t collected_ = 0;  // spent on collections for want of memory, in instructions
  int depth_ = 0;          // of calls
  std::optional<std::string> end_;
};

}  // namespace runner::lua
