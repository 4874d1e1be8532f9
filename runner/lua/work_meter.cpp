#include "runner/lua/work_meter.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/runtime.h"

namespace runner::lua {
namespace {

constexpr int kHookInterval = 10'000;  // instructions between two checks of the budget
// Memory also costs time: to fill and to collect, above all when it is nearly exhausted.
constexpr int64_t kBytesPerInstruction = 4;

// CPU time of this thread, which a busy machine does not increase.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void* WorkMeter::allocate(lua_State* state, void* block, size_t old_size, size_t new_size) {
  if (block == nullptr) old_size = 0;  // Lua then passes the kind of object
  if (new_size == 0) {
    std::free(block);
    used_ -= old_size;
    return nullptr;
  }
  if (new_size > old_size && used_ + (new_size - old_size) > budget_.memory_bytes) return refuse(state, new_size);
  void* now = std::realloc(block, new_size);
  if (now == nullptr) return refuse(state, new_size);
  if (new_size > old_size) {
    refused_ = 0;
    spend_bytes(state, new_size - old_size);
  }
  used_ += new_size - old_size;
  return now;
}

// Lua collects garbage and requests the same size again. If that fails too, the budget is exceeded.
void* WorkMeter::refuse(lua_State* state, size_t size) {
  const bool spent = std::exchange(refused_, size) == size;
  if (!spent) {
    spend_bytes(state, used_);
    collected_ += static_cast<int64_t>(used_) / kBytesPerInstruction;
  }
  if (spent && depth_ > 0 && !end_) end(state, kNoMemory);
  return nullptr;
}

// Called in the allocator, which must not raise an error. Therefore the next instruction checks the budget.
void WorkMeter::spend_bytes(lua_State* state, size_t bytes) {
  left_ -= static_cast<int64_t>(bytes) / kBytesPerInstruction;
  if (left_ <= next_look_ && depth_ > 0) lua_sethook(state, on_count, LUA_MASKCOUNT, 1);
}

void WorkMeter::refill(lua_State* state) {
  if (end_) return;
  of_call_ = left_ = budget_.instructions;
  seconds_left_ = budget_.seconds;
  collected_ = 0;
  over_.clear();
  last_time_.reset();  // most calls end before a check, and need no time
  next_look_ = left_ - kHookInterval;
  lua_sethook(state, on_count, LUA_MASKCOUNT, kHookInterval);
}

void WorkMeter::spend(lua_State* state, int64_t instructions) {
  const bool too_large = instructions > budget_.instructions;
  left_ -= too_large ? budget_.instructions : instructions;
  if (too_large && !end_)
    luaL_error(state, "one call needs more than the %d million Lua instructions that a hook may use",
               static_cast<int>(budget_.instructions / 1'000'000));
  if (left_ <= next_look_) look(state);
}

void WorkMeter::end(lua_State* state, std::string text) {
  end_ = std::move(text);
  next_look_ = kAlways;
  lua_sethook(state, on_count, LUA_MASKCOUNT, 1);
}

void WorkMeter::on_count(lua_State* state, lua_Debug*) {
  WorkMeter& meter = Runtime::of(state).meter();
  meter.left_ -= lua_gethookcount(state);
  meter.look(state);
}

void WorkMeter::look(lua_State* state) {
  next_look_ = left_ - kHookInterval;
  const double now = thread_seconds(), before = std::exchange(last_time_, now).value_or(now);
  seconds_left_ -= std::max(now - before - std::exchange(left_out_, 0), 0.0);
  if (of_call_ == budget_.instructions && interrupted && interrupted()) {
    left_ = std::min(left_, of_call_ /= 10);
    seconds_left_ = std::min(seconds_left_, budget_.seconds / 10);
  }
  if (left_ > 0 && seconds_left_ > 0 && !end_) {
    if (lua_gethookcount(state) != kHookInterval) lua_sethook(state, on_count, LUA_MASKCOUNT, kHookInterval);
    return;
  }
  // The hook is that of one coroutine. In the others, each spend() raises the error.
  next_look_ = kAlways;
  lua_sethook(state, on_count, LUA_MASKCOUNT, 1);
  if (end_) {
    lua_pushlstring(state, end_->data(), end_->size());  // NOLINT(clang-analyzer-cplusplus.InnerPointer): copies it
    lua_error(state);
  }
  if (!over_.empty()) {
    lua_pushlstring(state, over_.data(), over_.size());
    lua_error(state);
  }
  // When memory is nearly exhausted, collections free less and less but cost the same.
  if (collected_ > budget_.instructions / 4) {
    lua_pushstring(state, kNoMemory);
    lua_error(state);
  }
  const bool is_interrupted = of_call_ != budget_.instructions;
  const std::string used =
      left_ > 0 ? fmt::format("{:g} s of CPU time", is_interrupted ? budget_.seconds / 10 : budget_.seconds)
                : fmt::format("{} million Lua instructions", of_call_ / 1'000'000);
  luaL_where(state, 1);
  over_ = fmt::format("{}the hook has run for {}{}: is there an endless loop?", lua_tostring(state, -1), used,
                      is_interrupted ? " after the run was interrupted" : "");
  lua_pushlstring(state, over_.data(), over_.size());
  lua_error(state);
}

}  // namespace runner::lua
