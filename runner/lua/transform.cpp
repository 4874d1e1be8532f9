#include "runner/lua/transform.h"

#include <atomic>
#include <bit>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include <lua.hpp>

#include "runner/data/random.h"
#include "runner/lua/accelerator.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/document.h"
#include "runner/lua/libraries.h"
#include "runner/lua/modules.h"
#include "runner/lua/reachable.h"
#include "runner/lua/recording.h"
#include "runner/lua/seal.h"
#include "runner/lua/tensor.h"

namespace runner::lua {
namespace {

using data::Sample;

constexpr const char* kCall = "runner.transform";  // registry key: the closure of call_transform
constexpr const char* kOwnState =
    "it runs in its own Lua state and gets samples in any order; use sample.id, sample.epoch and math.random";

// ---- names that are not available -----------------------------------------------------------------------------------

// __newindex of the globals after the files have run.
int refuse_global(lua_State* state) {
  const char* const name = lua_type(state, 2) == LUA_TSTRING ? lua_tostring(state, 2) : luaL_typename(state, 2);
  fail(ErrorKind::kRun, "transform sets the global '{}', which is not shared with the rest of the hook: {}", name,
       kOwnState);
}

// __index of unknown globals. Upvalue 1: the function of the sandbox.
int missing_transform_global(lua_State* state) {
  lua_settop(state, 2);
  if (lua_type(state, 2) == LUA_TSTRING && text_argument(state, 2) == "acc")
    fail(ErrorKind::kRun, "acc is not available in transform: {}; sample.vars has the recipe's vars", kOwnState);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_insert(state, 1);
  lua_call(state, 2, 1);
  return 1;
}

// A tensor function such as nn.relu. Upvalue 1: its name.
int no_tensors(lua_State* state) {
  fail(ErrorKind::kRun,
       "nn.{} is not available in transform: it computes with tensors, but transform gets the numbers of "
       "sample.features",
       lua_tostring(state, lua_upvalueindex(1)));
}

int open_nn_without_tensors(lua_State* state) {
  open_nn(state);
  luaL_getmetafield(state, -1, "__index");  // the table behind the sealed one
  for (const TensorFunction& entry : tensor_functions()) {
    if (!entry.is_function) continue;
    lua_pushstring(state, entry.name);
    lua_pushcclosure(state, bound<no_tensors>, 1);
    lua_setfield(state, -2, entry.name);
  }
  lua_pop(state, 1);
  return 1;
}

// Gives Lua code an empty table of globals with the real globals behind it. Otherwise, assigning an existing global
// would not call __newindex.
int cover_globals(lua_State* state) {
  lua_pushglobaltable(state);  // 1
  lua_getmetatable(state, 1);  // 2
  lua_getfield(state, 2, "__index");
  lua_pushcclosure(state, bound<missing_transform_global>, 1);
  lua_setfield(state, 2, "__index");
  lua_newtable(state);           // 3: the globals that Lua code sees
  lua_createtable(state, 0, 3);  // 4: its metatable
  for (const char* event : {"__index", "__newindex"}) {
    lua_pushvalue(state, 1);
    lua_setfield(state, 4, event);
  }
  protect_metatable(state);
  lua_setmetatable(state, 3);
  lua_pushvalue(state, 3);
  lua_setfield(state, 1, "_G");
  lua_rawseti(state, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  return 0;
}

// ---- the sample in Lua ----------------------------------------------------------------------------------------------

constexpr std::string_view kTransformFields[] = {"features", "shape", "label", "id", "epoch", "vars"};

// Upvalues of call_transform: the function, tables reused for every sample, and the snapshot of values that must not
// change.
enum Upvalue { kFunction = 1, kSample, kFeatures, kShape, kTargets, kVarsField, kSnapshot, kUpvalueCount = kSnapshot };

constexpr int at(Upvalue upvalue) {
  return lua_upvalueindex(upvalue);
}

template <class Numbers>
void fill(lua_State* state, int table, const Numbers& numbers) {
  lua_Integer i = 0;
  for (const auto number : numbers) {
    if constexpr (std::is_integral_v<decltype(+number)>) {
      lua_pushinteger(state, number);
    } else {
      lua_pushnumber(state, static_cast<double>(number));
    }
    lua_rawseti(state, table, ++i);
  }
}

// Returns whether the table at `index` contains exactly `numbers`.
template <class Numbers>
bool holds(lua_State* state, int index, const Numbers& numbers) {
  lua_Integer i = 0;
  bool same = true;
  for (const auto number : numbers) {
    lua_rawgeti(state, index, ++i);
    same = same && lua_type(state, -1) == LUA_TNUMBER &&
           (lua_tonumber(state, -1) == static_cast<double>(number) || number != number);
    lua_pop(state, 1);
  }
  return same && count_entries(state, index) == i;
}

void set_integer(lua_State* state, const char* field, int64_t value) {
  lua_pushinteger(state, value);
  lua_setfield(state, at(kSample), field);
}

void describe(lua_State* state, const Sample& sample) {
  fill(state, at(kFeatures), sample.features);
  lua_pushvalue(state, at(kFeatures));
  lua_setfield(state, at(kSample), "features");
  if (sample.targets.empty()) {
    set_integer(state, "label", sample.label);
  } else {
    fill(state, at(kTargets), sample.targets);
  }
  set_integer(state, "id", sample.id);
  set_integer(state, "epoch", sample.epoch);
}

bool has_integer(lua_State* state, const char* field, int64_t value) {
  lua_getfield(state, at(kSample), field);
  int exact = 0;
  const bool has = lua_tointegerx(state, -1, &exact) == value && exact != 0;
  lua_pop(state, 1);
  return has;
}

bool has_table(lua_State* state, const char* field, Upvalue table) {
  lua_getfield(state, at(kSample), field);
  const bool has = lua_rawequal(state, -1, at(table)) != 0;
  lua_pop(state, 1);
  return has;
}

// Rejects changes of other fields, which would have no effect.
void check_description(lua_State* state, const Sample& sample) {
  constexpr const char* kOnly = "only sample.features may be changed";
  const bool same_label = sample.targets.empty()
                              ? has_integer(state, "label", sample.label)
                              : has_table(state, "label", kTargets) && holds(state, at(kTargets), sample.targets);
  const bool same_shape = has_table(state, "shape", kShape) && holds(state, at(kShape), sample.shape.dims());
  RUN_CHECK(same_label, ErrorKind::kRun, "transform changes sample.label: {}", kOnly);
  RUN_CHECK(same_shape, ErrorKind::kRun, "transform changes sample.shape: {}", kOnly);
  RUN_CHECK(has_integer(state, "id", sample.id), ErrorKind::kRun, "transform changes sample.id: {}", kOnly);
  RUN_CHECK(has_integer(state, "epoch", sample.epoch), ErrorKind::kRun, "transform changes sample.epoch: {}", kOnly);
  RUN_CHECK(has_table(state, "vars", kVarsField), ErrorKind::kRun, "transform changes sample.vars: {}", kOnly);
  if (count_entries(state, at(kSample)) == std::ssize(kTransformFields) && lua_getmetatable(state, at(kSample)) == 0)
    return;
  check_keys(state, at(kSample), "sample", kTransformFields);
  fail(ErrorKind::kRun, "transform changes sample itself: {}", kOnly);
}

// ---- results --------------------------------------------------------------------------------------------------------

// Throws a message that explains why a list is not valid. `did`: "returned" or "left". A list of the right length
// contains a value that is not a number.
[[noreturn]] void refuse_features(lua_State* state, int list, const char* did, size_t expected) {
  lua_Integer count = 0;
  lua_pushnil(state);
  while (lua_next(state, list) != 0) {
    lua_pop(state, 1);
    if (lua_isinteger(state, -1) != 0 && lua_tointeger(state, -1) > 0) {
      ++count;
      continue;
    }
    const std::string_view key = lua_type(state, -1) == LUA_TSTRING ? lua_tostring(state, -1) : type_name(state, -1);
    fail(ErrorKind::kRun, "transform {} features with the key '{}', expected the indices 1 to {}", did, key, expected);
  }
  RUN_CHECK(static_cast<size_t>(count) == expected, ErrorKind::kRun, "transform {} {} features, expected {}", did,
            count, expected);
  for (lua_Integer i = 1;; ++i) {
    lua_rawgeti(state, list, i);
    RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER, ErrorKind::kRun, "transform {} {} as feature {}, expected a number",
              did, type_name(state, -1), i);
    lua_pop(state, 1);
  }
}

// Reads the list at `list`. Rejects additional entries, which would still be there for the next sample.
void read_features(lua_State* state, int list, const char* did, std::span<float> features) {
  const auto size = static_cast<lua_Integer>(features.size());
  lua_Integer count = 0;
  lua_pushnil(state);
  while (lua_next(state, list) != 0) {
    const lua_Integer i = lua_isinteger(state, -2) != 0 ? lua_tointeger(state, -2) : 0;
    if (i < 1 || i > size || lua_type(state, -1) != LUA_TNUMBER) refuse_features(state, list, did, features.size());
    features[static_cast<size_t>(i - 1)] = static_cast<float>(lua_tonumber(state, -1));
    ++count;
    lua_pop(state, 1);
  }
  if (count != size) refuse_features(state, list, did, features.size());
  RUN_CHECK(lua_getmetatable(state, list) == 0, ErrorKind::kRun, "transform {} features with a metatable", did);
}

// Reads the result at the top of the stack.
void take_result(lua_State* state, const Sample& sample) {
  const bool left = lua_isnil(state, -1) || lua_rawequal(state, -1, at(kSample)) != 0;
  if (left) lua_getfield(state, at(kSample), "features");
  const char* const did = left ? "left" : "returned";
  if (!lua_istable(state, -1))
    fail(ErrorKind::kRun, "transform {} {}, expected {}a list of {} features", did, type_name(state, -1),
         left ? "in sample.features " : "nothing, the sample, or ", sample.features.size());
  read_features(state, lua_gettop(state), did, sample.features);
  if (lua_rawequal(state, -1, at(kFeatures)) != 0) return;
  lua_newtable(state);  // the contents of the table were not checked
  lua_replace(state, at(kFeatures));
}

// ---- the transform --------------------------------------------------------------------------------------------------

class LuaTransform : public data::Transform {
 public:
  LuaTransform(const schema::Recipe& recipe, std::vector<SourceFile> sources,
               std::function<void(std::string_view)> print, std::function<bool()> interrupted)
      : recipe_(recipe),
        print_(std::move(print)),
        runtime_({.folder = std::filesystem::path(recipe.hooks).parent_path(),
                  .seed = static_cast<uint64_t>(recipe.seed),
                  .print = [this](std::string_view line) { keep_line(line); },
                  .recorded = std::move(sources)}) {
    runtime_.recording = &recording_;
    runtime_.set_interrupted(std::move(interrupted));
    lua_State* const state = runtime_.state();
    open_libraries(runtime_);
    runtime_.add_module("nn", open_nn_without_tensors);
    lua_pushcfunction(state, cover_globals);
    runtime_.call(state, 0, 0);
    runtime_.run_file(recipe.hooks);
    lua_pushcfunction(state, bound<close_state>);
    lua_insert(state, -2);
    lua_pushlightuserdata(state, this);
    try {
      runtime_.call(state, 2, 0);
    } catch (const Error& error) {
      throw Error(ErrorKind::kRecipe, error.message(), error.where().known() ? error.where() : defined_);
    }
    files_ = runtime_.sources().size();
    runtime_.set_random_source([this] { return draw(); });
  }

  void apply(const Sample& sample) override {
    sample_ = &sample;
    draws_ = 0;
    lua_State* const state = runtime_.state();
    lua_getfield(state, LUA_REGISTRYINDEX, kCall);
    lua_pushlightuserdata(state, this);
    try {
      runtime_.call(state, 1, 0);
    } catch (const Error& error) {
      Error with_line(ErrorKind::kRun, error.message(), error.where().known() ? error.where() : defined_);
      throw with_line.note(fmt::format("in transform, sample {} of epoch {}", sample.id, sample.epoch));
    }
  }

  void pass_on(int64_t batch) override {
    if (!has_lines_.load(std::memory_order_relaxed)) return;
    for (const std::string& line : take_lines(batch)) print_(line);
  }

 private:
  // Arguments: the hook's table and the LuaTransform. Makes the globals read-only and prepares the call of `transform`.
  static int close_state(lua_State* state) {
    auto& self = *static_cast<LuaTransform*>(lua_touserdata(state, 2));
    lua_settop(state, 1);
    RUN_CHECK(lua_istable(state, 1) && lua_getfield(state, 1, "transform") == LUA_TFUNCTION, ErrorKind::kRun,
              "transform was a function and is now {}: the hook file must give the same result each time it runs",
              type_name(state, -1));
    lua_replace(state, 1);
    lua_pushvalue(state, 1);
    self.defined_ = place_of_function(state);

    lua_pushnil(state);  // 2: reserved for the globals
    lua_pushglobaltable(state);
    lua_getmetatable(state, -1);
    lua_pushcfunction(state, bound<refuse_global>);
    lua_setfield(state, -2, "__newindex");
    lua_getfield(state, -1, "__index");  // the real globals
    lua_replace(state, 2);

    lua_createtable(state, 0, static_cast<int>(std::size(kTransformFields)));
    const int sample = lua_gettop(state);
    push_map(state, self.recipe_.vars);
    lua_setfield(state, sample, "vars");

    const int snapshot = push_snapshot_of(state, sample);
    self.size_ = snapshot_size(state, snapshot);

    lua_pushvalue(state, 1);
    lua_pushvalue(state, sample);
    for (int table = kFeatures; table <= kTargets; ++table) lua_newtable(state);
    lua_getfield(state, sample, "vars");
    lua_pushvalue(state, snapshot);
    lua_pushcclosure(state, bound<call_transform>, kUpvalueCount);
    lua_setfield(state, LUA_REGISTRYINDEX, kCall);
    return 0;
  }

  // Pushes a snapshot of all values that a call could change, and returns its index. The stack begins with the
  // transform and the globals; `sample`: index of the sample.
  static int push_snapshot_of(lua_State* state, int sample) {
    push_snapshot(state);
    const int snapshot = lua_gettop(state);
    const auto add = [&](const char* name) { add_root(state, snapshot, name); };
    lua_pushvalue(state, 2);
    add("");
    lua_getfield(state, LUA_REGISTRYINDEX, kRequired);
    add("");
    lua_getfield(state, sample, "vars");
    add("sample.vars");
    lua_pushvalue(state, 1);
    add("transform");
    return snapshot;
  }

  // Argument: the LuaTransform.
  static int call_transform(lua_State* state) {
    auto& self = *static_cast<LuaTransform*>(lua_touserdata(state, 1));
    const Sample& sample = *self.sample_;
    if (self.calls_ == 0) self.describe_data(state);
    describe(state, sample);
    lua_pushvalue(state, at(kFunction));
    lua_pushvalue(state, at(kSample));
    lua_call(state, 1, 1);
    take_result(state, sample);
    check_description(state, sample);
    self.check_unchanged(state);
    return 0;
  }

  // Sets the fields that are the same for every sample.
  void describe_data(lua_State* state) const {
    fill(state, at(kShape), sample_->shape.dims());
    lua_pushvalue(state, at(kShape));
    lua_setfield(state, at(kSample), "shape");
    if (sample_->targets.empty()) return;
    lua_pushvalue(state, at(kTargets));
    lua_setfield(state, at(kSample), "label");
  }

  // Checks that calls changed no values. Most changes show at once, and comparing large tables is expensive. Therefore
  // this compares after calls 1, 2, 4, 8, … of an epoch, and otherwise once the calls since the last comparison pay for
  // it.
  void check_unchanged(lua_State* state) {
    constexpr int64_t kPerCall = 16;  // values per call that pay for a comparison
    RUN_CHECK(runtime_.sources().size() == files_, ErrorKind::kRun,
              "transform requires {} when it is called; require it at the beginning of the file",
              runtime_.sources().back().path);
    if (calls_++ == 0 || sample_->epoch != epoch_) calls_of_epoch_ = 0;
    epoch_ = sample_->epoch;
    ++calls_of_epoch_;
    unchecked_ += kPerCall;
    if (unchecked_ < size_ && !std::has_single_bit(calls_of_epoch_)) return;
    unchecked_ = 0;
    if (compare(state, at(kSnapshot))) return;
    fail(ErrorKind::kRun, "transform changes '{}', which is not shared with the rest of the hook: {}",
         lua_tostring(state, -1), kOwnState);
  }

  uint64_t draw() {
    const uint64_t index = static_cast<uint64_t>(sample_->id) | static_cast<uint64_t>(sample_->epoch) << 32;
    const data::Block block =
        data::random_block(static_cast<uint64_t>(recipe_.seed), data::Stream::kTransform, index, draws_++);
    return block[0] | static_cast<uint64_t>(block[1]) << 32;
  }

  // Keeps a printed line. Ignores lines printed while the files run, because the hook's main state prints them.
  void keep_line(std::string_view line) {
    if (sample_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    lines_.push_back({sample_->batch, std::string(line)});
    has_lines_ = true;
  }

  // Removes the lines up to a batch. This makes the output independent of how far this thread runs ahead.
  std::vector<std::string> take_lines(int64_t batch) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> taken;
    for (; !lines_.empty() && lines_.front().batch <= batch; lines_.pop_front())
      taken.push_back(std::move(lines_.front().text));
    has_lines_ = !lines_.empty();
    return taken;
  }

  struct Line {
    int64_t batch;
    std::string text;
  };

  const schema::Recipe& recipe_;
  const std::function<void(std::string_view)> print_;
  Recording recording_;  // never begins, because a transform has no tensors
  const Sample* sample_ = nullptr;
  uint32_t draws_ = 0;  // draws of the current sample
  SourceMark defined_;
  size_t files_ = 0;                  // number of files read
  int64_t size_ = 0, unchecked_ = 0;  // size of the snapshot; values paid for since the last comparison
  int64_t epoch_ = 0, calls_ = 0;     // epoch of the newest sample; number of calls
  uint64_t calls_of_epoch_ = 0;
  std::mutex mutex_;
  std::deque<Line> lines_;  // printed but not yet passed on
  std::atomic<bool> has_lines_ = false;
  Runtime runtime_;
};

}  // namespace

std::span<const std::string_view> sample_fields() {
  return kTransformFields;
}

std::unique_ptr<data::Transform> make_transform(const schema::Recipe& recipe, std::vector<SourceFile> sources,
                                                std::function<void(std::string_view)> print,
                                                std::function<bool()> interrupted) {
  return std::make_unique<LuaTransform>(recipe, std::move(sources), std::move(print), std::move(interrupted));
}

}  // namespace runner::lua
