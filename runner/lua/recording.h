// The step that is being traced, as tensors in Lua see it.
//
// A tensor in Lua is the id of a node and the number of its recording. The garbage collector therefore holds no engine
// memory, and the use of a tensor after its step is an error instead of a leak.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "runner/lua/hook_work.h"
#include "runner/model/module.h"

struct lua_State;

namespace runner::lua {

using backends::Value;

class Runtime;

// The recording to which tensors in Lua belong; Runtime::recording points to it.
class Recording {
 public:
  // Returns the elements of a value; computes its inputs at once.
  using Read = std::function<std::vector<double>(Value)>;

  // Tensors can be created between begin() and end(). `forward`: must outlive that time. `read`: null if values cannot
  // be read.
  void begin(lua_State* state, nn::ForwardContext& forward, Read read);
  void end();

  // Sets what begins the recording when the first tensor is created; null: only begin() does.
  void set_starter(std::function<void()> starter) { starter_ = std::move(starter); }
  // Begins the recording if there is a starter and it is not active.
  void begin_lazily() {
    if (!active() && starter_) starter_();
  }

  bool active() const { return forward_ != nullptr; }
  bool is_of(const backends::Program& program) const { return active() && &forward_->program == &program; }
  uint32_t number() const { return number_; }
  nn::ForwardContext& forward() const { return *forward_; }
  backends::Program& program() const { return forward_->program; }
  std::vector<double> read(lua_State* state, Value value);

  // Work of all recordings.
  HookWork& work() { return work_; }

  // Returns the stream number of the next random tensor of the step: 0, 1, …. The first call takes a draw of the run's
  // generator. The draw and the seed are the key of all random tensors of the step. Modules of a declared step have
  // separate recordings but share its numbers.
  int64_t next_stream(Runtime& runtime);
  int64_t draw() const { return draw_; }
  // Takes a new draw for a recording that runs again.
  void draw_again(Runtime& runtime);

  // The Lua thread, main or coroutine, whose code is running; modules call back into it.
  lua_State* caller() const { return caller_; }
  void set_caller(lua_State* state) { caller_ = state; }

  // Sets the precision for operations that Lua code traces outside of modules: f32, unless acc:autocast applies. Called
  // before such code begins to trace.
  void set_precision();
  // Returns whether the recipe uses mixed precision.
  bool is_mixed() const { return active() && forward_->mixed.dtype != backends::DType::kF32; }

  // Assigns the running line of the hook to the nodes traced from now on.
  void mark_line(lua_State* state);

 private:
  friend class ModuleCall;
  friend class AutocastRegion;
  struct Line {
    const char* source = nullptr;
    int line = 0;
    uint32_t recording = 0;
    MarkId mark = kNoMark;
  };

  nn::ForwardContext* forward_ = nullptr;
  lua_State* caller_ = nullptr;
  Read read_;
  HookWork work_;
  std::function<void()> starter_;
  uint32_t number_ = 0;
  int64_t draw_ = 0;
  std::optional<bool> mixed_;      // setting of the innermost acc:autocast
  int modules_ = 0;                // number of active module calls
  std::array<Line, 256> lines_{};  // cache indexed by line number; most steps have fewer lines
};

// Makes tensors belong to `forward` during its lifetime. Has no effect if they already do.
class RecordingScope {
 public:
  RecordingScope(Runtime& runtime, nn::ForwardContext& forward, Recording::Read read = nullptr);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recording* recording_ = nullptr;  // the recording to end, or null
};

// During a module call, matrix products use the recipe's mixed precision, unless acc:autocast is active. This scope and
// AutocastRegion stay in effect if a custom loop begins another recording within them.
class ModuleCall {
 public:
  explicit ModuleCall(Recording& recording) : recording_(recording) {
    ++recording.modules_;
    recording.set_precision();
  }
  ~ModuleCall() {
    --recording_.modules_;
    recording_.set_precision();
  }
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

  // True if the caller is not a module, in which case the outputs are f32.
  bool is_outermost() const { return recording_.modules_ == 1; }

 private:
  Recording& recording_;
};

// While acc:autocast runs its function.
class AutocastRegion {
 public:
  AutocastRegion(Recording& recording, bool mixed) : recording_(recording), outer_(recording.mixed_) {
    recording.mixed_ = mixed;
    recording.set_precision();
  }
  ~AutocastRegion() {
    recording_.mixed_ = outer_;
    recording_.set_precision();
  }
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  Recording& recording_;
  const std::optional<bool> outer_;
};

// Returns the active recording. Throws Error(kRun) with the name `what` if nothing is being traced.
Recording& recording_of(lua_State* state, const char* what, std::string_view hint = {});

// Pops the table at the top of the stack and makes it the metatable of tensors.
void set_tensor_metatable(lua_State* state);
// Pushes a tensor of the active recording. Returns 1, the number of results of a bound function that returns it.
int push_tensor(lua_State* state, Value value);
bool is_tensor(lua_State* state, int index);
// Returns the tensor at `index`. Throws Error(kRun) if it is not a tensor or belongs to a finished step.
Value tensor_argument(lua_State* state, int index);
// Like tensor_argument(), for a value returned by a hook. `what`: its name in messages.
Value tensor_value(lua_State* state, int index, std::string_view what);

}  // namespace runner::lua
