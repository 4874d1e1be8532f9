// The step that is being recorded, as tensors in Lua see it.
//
// A tensor in Lua is the number of a node, with the number of the recording that it belongs to: the collector holds no
// memory of the engine, however long it waits, and a tensor that outlives its step is an error rather than a leak.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "runner/nn/module.h"

struct lua_State;

namespace runner::lua {

using backends::Value;

class Runtime;

// What tensors in Lua belong to; Runtime::user points at it.
class Recording {
 public:
  // The elements of a value now; what it depends on is computed for that.
  using Read = std::function<std::vector<double>(Value)>;

  // Between begin() and end() tensors can be made; `forward` must live as long.  `read`: null where nothing has a
  // value.
  void begin(lua_State* state, nn::Forward& forward, Read read);
  void end();

  bool active() const { return forward_ != nullptr; }
  bool is_of(const backends::Program& program) const { return active() && &forward_->program == &program; }
  uint32_t number() const { return number_; }
  nn::Forward& forward() const { return *forward_; }
  backends::Program& program() const { return forward_->program; }
  std::vector<double> read(Value value) const;

  // For the next random tensor of the step: number 0, 1, …; the first takes a draw of the run's generator, which with
  // the seed is the key of all of them.  Modules of a declared step are recordings of their own, and share its numbers.
  int64_t next_stream(Runtime& runtime);
  int64_t draw() const { return draw_; }
  // For a recording that is used once more.
  void draw_again(Runtime& runtime);

  // The state, main or of a coroutine, whose code is running: where modules call back into Lua.
  lua_State* caller() const { return caller_; }
  void set_caller(lua_State* state) { caller_ = state; }

  // What Lua code records of its own, outside the modules, is in f32, but where acc:autocast says otherwise: called
  // where such code begins to record.
  void set_precision();
  // Under a recipe of mixed precision.
  bool is_mixed() const { return active() && forward_->mixed.dtype != backends::DType::kF32; }

  // Gives the line of the hook that is running to the nodes recorded from now on.
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

  nn::Forward* forward_ = nullptr;
  lua_State* caller_ = nullptr;
  Read read_;
  uint32_t number_ = 0;
  int64_t draw_ = 0;
  std::optional<bool> mixed_;      // what the innermost acc:autocast says
  int modules_ = 0;                // that are being called
  std::array<Line, 256> lines_{};  // by line: most steps are shorter
};

// Tensors belong to `forward` while this lives, which they may do already.
class RecordingScope {
 public:
  RecordingScope(Runtime& runtime, nn::Forward& forward, Recording::Read read = nullptr);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recording* recording_ = nullptr;  // that ends with this
};

// While a module is called, products are in the recipe's mixed precision, unless acc:autocast has said something else.
// Both scopes hold where a loop goes on with another recording within.
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

  // By what is no module: its outputs are f32.
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

// The recording of a state; throws Error(kRun), naming `what`, where nothing is being recorded.
Recording& recording_of(lua_State* state, const char* what);

// Makes the table at the top of the stack, which is popped, the metatable of tensors.
void set_tensor_metatable(lua_State* state);
// Pushes a tensor of the recording under way; gives 1, the number of results of a function that returns it.
int push_tensor(lua_State* state, Value value);
bool is_tensor(lua_State* state, int index);
// The tensor at `index`.  Throws Error(kRun) for anything else and for a tensor of a step that is over.
Value tensor_argument(lua_State* state, int index);
// The same for a value that a hook returned, which `what` names.
Value tensor_value(lua_State* state, int index, std::string_view what);

}  // namespace runner::lua
