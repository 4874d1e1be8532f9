#include "runner/lua/recording.h"

#include <utility>

#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/runtime.h"

namespace runner::lua {
namespace {

struct Handle {
  uint32_t recording;
  backends::ValueId id;
};

// Its address is the registry key of the metatable, which is found faster than by name.
constexpr char kMetatable = 0;

// Returns the handle at `index`, or null if the value is not a tensor.
const Handle* handle_at(lua_State* state, int index) {
  const void* const data = lua_touserdata(state, index);
  if (data == nullptr || lua_getmetatable(state, index) == 0) return nullptr;
  lua_rawgetp(state, LUA_REGISTRYINDEX, &kMetatable);
  const bool is_tensor = lua_rawequal(state, -1, -2) != 0;
  lua_pop(state, 2);
  return is_tensor ? static_cast<const Handle*>(data) : nullptr;
}

Value value_of(lua_State* state, const Handle& handle) {
  const Recording& recording = recording_of(state, "a tensor");
  RUN_CHECK(handle.recording == recording.number(), ErrorKind::kRun,
            "this tensor belongs to an earlier step; keep its value as a number with tensor:item()");
  return {&recording.program(), handle.id};
}

}  // namespace

void Recording::begin(lua_State* state, nn::ForwardContext& forward, Read read) {
  caller_ = state;
  forward_ = &forward;
  read_ = std::move(read);
  ++number_;
  work_.begin_recording(program());
}

void Recording::set_precision() {
  if (active()) forward_->autocast = mixed_.value_or(modules_ > 0) ? forward_->mixed : nn::Autocast{};
}

int64_t Recording::next_stream(Runtime& runtime) {
  if (forward_->random_tensors == 0) draw_again(runtime);
  return forward_->random_tensors++;
}

void Recording::draw_again(Runtime& runtime) {
  draw_ = static_cast<int64_t>(runtime.random_draws());
  runtime.set_random_draws(runtime.random_draws() + 1);
}

void Recording::end() {
  if (active()) work_.end_recording(program());
  forward_ = nullptr;
  read_ = nullptr;
}

std::vector<double> Recording::read(lua_State* state, Value value) {
  RUN_CHECK(read_ != nullptr, ErrorKind::kRun, "item: values cannot be read here: the recorded operations run later");
  work_.count_read(state, program(), value.id);
  return read_(value);
}

RecordingScope::RecordingScope(Runtime& runtime, nn::ForwardContext& forward, Recording::Read read) {
  Recording& recording = *runtime.recording;
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

Recording& recording_of(lua_State* state, const char* what, std::string_view hint) {
  Recording& recording = *Runtime::of(state).recording;
  recording.begin_lazily();
  RUN_CHECK(recording.active(), ErrorKind::kRun, "{} is only available in steps and events{}{}", what,
            hint.empty() ? "" : "; ", hint);
  return recording;
}

void set_tensor_metatable(lua_State* state) {
  lua_rawsetp(state, LUA_REGISTRYINDEX, &kMetatable);
}

int push_tensor(lua_State* state, Value value) {
  const Recording& recording = recording_of(state, "a tensor");
  constexpr int kMaxNodes = 1'000'000;
  RUN_CHECK(value.id < kMaxNodes, ErrorKind::kRun, "the step has more than {} operations: is there an endless loop?",
            kMaxNodes);
  auto* handle = static_cast<Handle*>(lua_newuserdatauv(state, sizeof(Handle), 0));
  *handle = {recording.number(), value.id};
  lua_rawgetp(state, LUA_REGISTRYINDEX, &kMetatable);
  lua_setmetatable(state, -2);
  return 1;
}

bool is_tensor(lua_State* state, int index) {
  return handle_at(state, index) != nullptr;
}

Value tensor_argument(lua_State* state, int index) {
  const Handle* handle = handle_at(state, index);
  if (handle == nullptr) bad_argument(state, index, "a tensor");
  return value_of(state, *handle);
}

Value tensor_value(lua_State* state, int index, std::string_view what) {
  const Handle* handle = handle_at(state, index);
  RUN_CHECK(handle != nullptr, ErrorKind::kRun, "{} is {}, expected a tensor", what, type_name(state, index));
  return value_of(state, *handle);
}

}  // namespace runner::lua
