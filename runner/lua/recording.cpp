#include "runner/lua/recording.h"

#include <utility>

#include <lua.hpp>

#include "runner/lua/bind.h"
#include "runner/lua/runtime.h"
#include "runner/lua/tensor.h"

namespace runner::lua {
namespace {

struct Handle {
  uint32_t recording;
  backends::ValueId id;
};

Value value_of(lua_State* state, const Handle& handle) {
  const Recording& recording = recording_of(state, "a tensor");
  RUN_CHECK(handle.recording == recording.number(), ErrorKind::kRun,
            "this tensor belongs to a step that is over; keep its value as a number, with tensor:item()");
  return {&recording.program(), handle.id};
}

}  // namespace

void Recording::begin(lua_State* state, nn::Forward& forward, Read read) {
  caller_ = state;
  forward_ = &forward;
  read_ = std::move(read);
  ++number_;
}

void Recording::end() {
  forward_ = nullptr;
  read_ = nullptr;
}

double Recording::read(Value value) const {
  RUN_CHECK(read_ != nullptr, ErrorKind::kRun, "item: nothing is computed here: what is recorded now runs later");
  return read_(value);
}

RecordingScope::RecordingScope(Runtime& runtime, nn::Forward& forward, Recording::Read read) {
  auto& recording = *static_cast<Recording*>(runtime.user);
  if (recording.is_of(forward.program)) return;
  recording_ = &recording;
  recording.begin(runtime.state(), forward, std::move(read));
}

RecordingScope::~RecordingScope() {
  if (recording_ != nullptr) recording_->end();
}

void Recording::mark_line(lua_State* state) {
  lua_Debug frame{};
  int level = 1;
  do {
    if (lua_getstack(state, level++, &frame) == 0) return;
    lua_getinfo(state, "Sl", &frame);
  } while (frame.currentline <= 0);
  Line& known = lines_[static_cast<size_t>(frame.currentline) % lines_.size()];
  if (known.source != frame.source || known.line != frame.currentline || known.recording != number_)
    known = {frame.source, frame.currentline, number_, program().intern({frame.source + 1, frame.currentline, 0})};
  program().set_mark(known.mark);
}

Recording& recording_of(lua_State* state, const char* what) {
  auto& recording = *static_cast<Recording*>(Runtime::of(state).user);
  RUN_CHECK(recording.active(), ErrorKind::kRun, "{} exists only inside a step; here nothing computes", what);
  return recording;
}

void push_tensor(lua_State* state, Value value) {
  const Recording& recording = recording_of(state, "a tensor");
  auto* handle = static_cast<Handle*>(lua_newuserdatauv(state, sizeof(Handle), 0));
  *handle = {recording.number(), value.id};
  luaL_setmetatable(state, kTensorName);
}

bool is_tensor(lua_State* state, int index) {
  return luaL_testudata(state, index, kTensorName) != nullptr;
}

Value tensor_argument(lua_State* state, int index) {
  const auto* handle = static_cast<const Handle*>(luaL_testudata(state, index, kTensorName));
  if (handle == nullptr) bad_argument(state, index, "a tensor");
  return value_of(state, *handle);
}

Value tensor_value(lua_State* state, int index, std::string_view what) {
  const auto* handle = static_cast<const Handle*>(luaL_testudata(state, index, kTensorName));
  RUN_CHECK(handle != nullptr, ErrorKind::kRun, "{} is {}, expected a tensor", what, type_name(state, index));
  return value_of(state, *handle);
}

}  // namespace runner::lua
