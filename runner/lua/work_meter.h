// Limits the resources of a Lua state: allocated memory, and the work of a call, counted in instructions and measured
// in CPU time. Once one is exhausted, or the run is over, every instruction and every end of a pcall or a coroutine
// raises an error, so that nothing can continue.
//
// Not thread-safe, like the state.
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
  int64_t instructions = 1'000'000'000;  // per call, including those charged by spend(); about ten seconds
  double seconds = 10;                   // of CPU time per call; without the engine's, see leave_out()
  int64_t pattern_steps = 10'000'000;    // per string.find, match or gsub, and per match of gmatch
};

class WorkMeter {
 public:
  // Lua's own message if memory is exhausted; it is allocated in advance.
  static constexpr const char* kNoMemory = "not enough memory";

  explicit WorkMeter(const Budget& budget) : budget_(budget) {}

  // Allocator of `state`, which is null until the state exists. Returns null if the memory budget is exceeded; Lua then
  // collects garbage, retries, and fails.
  void* allocate(lua_State* state, void* block, size_t old_size, size_t new_size);
  bool is_half_full() const { return used_ > budget_.memory_bytes / 2; }

  // Mark the begin and end of a call. Calls nest.
  void enter() { ++depth_; }
  void leave() { --depth_; }
  int depth() const { return depth_; }

  // Renews the budget.
  void refill(lua_State* state);
  // Charges instructions to the budget. Raises a Lua error if it is exceeded.
  void spend(lua_State* state, int64_t instructions);
  // Excludes time since the last check: that of the engine, such as the computation of a tensor.
  void leave_out(double seconds) { left_out_ += seconds; }
  // Polled during calls. Once it returns true, the call may use another tenth of its budget.
  std::function<bool()> interrupted;

  // Makes every instruction raise the error `text`, until forget_end().
  void end(lua_State* state, std::string text);
  void forget_end() { end_.reset(); }
  // Text of the error that ended the run, or null.
  const std::string* ended() const { return end_ ? &*end_ : nullptr; }

 private:
  static constexpr int64_t kAlways = INT64_MAX;

  static void on_count(lua_State* state, lua_Debug* frame);
  void* refuse(lua_State* state, size_t size);
  void spend_bytes(lua_State* state, size_t bytes);
  void look(lua_State* state);

  const Budget budget_;
  size_t used_ = 0;          // bytes
  size_t refused_ = 0;       // size in bytes of the newest refused request; 0 if a later one succeeded
  int64_t of_call_ = 0;      // instruction budget of the current call
  int64_t left_ = 0;         // remaining instructions
  int64_t next_look_ = 0;    // remaining instructions at the next check; kAlways once something is exhausted
  double seconds_left_ = 0;  // of CPU time
  std::optional<double> last_time_ = {};  // CPU time of this thread at the last check in this call
  double left_out_ = 0;                   // seconds of the engine since then
  int64_t collected_ = 0;                 // instructions charged for garbage collections due to lack of memory
  int depth_ = 0;                         // nesting depth of calls
  std::string over_;                      // error of the exhausted budget, with its place; empty if it is not exhausted
  std::optional<std::string> end_;
};

}  // namespace runner::lua
