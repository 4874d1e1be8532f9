#include "runner/lua/runtime.h"

#include <exception>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/dist/rank_error.h"
#include "backends/kernels/philox.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/libraries.h"

namespace runner::lua {
namespace {

// The function that protect() runs, and the exception that it threw.
struct Job {
  const std::function<void()>& body;
  std::exception_ptr thrown;
};

// Lua's own errors pass through, because they are not derived from std::exception.
int run_job(lua_State* state) {
  Job& job = *static_cast<Job*>(lua_touserdata(state, 1));
  lua_settop(state, 0);
  try {
    job.body();
    return 0;
  } catch (const std::exception&) {
    job.thrown = std::current_exception();
  }
  lua_pushliteral(state, "thrown");
  return lua_error(state);
}

// Returns the error of a bound function with a line of the hook. Rethrows it unchanged if such a line would not explain
// it.
Error thrown(const std::exception_ptr& cause, const SourceMark& where) {
  try {
    std::rethrow_exception(cause);
  } catch (backends::RankError& error) {
    error.locate(where);
    throw;
  } catch (const Error& error) {
    if (is_run_error(error)) throw;
    return Error(error).locate(where);
  }
}

}  // namespace

std::string shortened(std::string message) {
  constexpr size_t kLongest = 4096;  // bytes
  if (message.size() <= kLongest) return message;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;  // inside a UTF-8 character
  return fmt::format("{}… ({} bytes)", message.substr(0, end), message.size());
}

// ---- the state -----------------------------------------------------------------------------------------------------

Runtime::Runtime(RuntimeOptions options)
    : options_(std::move(options)), meter_(options_.budget), files_(options_.recorded) {
  lua_State* const state = lua_newstate(allocate, this);
  RUN_CHECK(state != nullptr, ErrorKind::kRun, "hooks: not enough memory");
  state_ = state;
  *static_cast<Runtime**>(lua_getextraspace(state)) = this;  // copied to coroutines
  lua_atpanic(state, [](lua_State*) -> int { assertion_failed("uncaught Lua error", __FILE__, __LINE__); });
  lua_pushcfunction(state, [](lua_State* opened) {
    open_sandbox(opened, of(opened).options_.budget.pattern_steps);
    lua_newtable(opened);
    lua_setfield(opened, LUA_REGISTRYINDEX, kRequired);
    lua_pushglobaltable(opened);
    set_function(opened, "require", bound<require>);
    return 0;
  });
  call(state, 0, 0);
}

Runtime::~Runtime() {
  lua_close(state_);
}

Runtime& Runtime::of(lua_State* state) {
  return **static_cast<Runtime**>(lua_getextraspace(state));
}

void* Runtime::allocate(void* self, void* block, size_t old_size, size_t new_size) {
  auto& runtime = *static_cast<Runtime*>(self);
  return runtime.meter_.allocate(runtime.state_, block, old_size, new_size);
}

// ---- calls ---------------------------------------------------------------------------------------------------------

void Runtime::call(lua_State* state, int arguments, int results) {
  if (meter_.depth() == 0) refill();
  const int handler = lua_gettop(state) - arguments;
  lua_pushcfunction(state, on_error);
  lua_insert(state, handler);
  meter_.enter();
  const int status = lua_pcall(state, arguments, results, handler);
  meter_.leave();
  lua_remove(state, handler);
  const std::string* const ended = meter_.ended();
  if (status == LUA_OK && ended == nullptr) return;
  if (status == LUA_OK) {  // the hook caught the error that ends the run, and then returned
    lua_settop(state, handler - 1);
    lua_pushlstring(state, ended->data(), ended->size());
  }
  throw_error(state, status);
}

void Runtime::protect(const std::function<void()>& body) {
  if (meter_.depth() == 0) refill();
  Job job{body, nullptr};
  lua_pushcfunction(state_, run_job);
  lua_pushlightuserdata(state_, &job);
  const int status = lua_pcall(state_, 1, 0, 0);
  if (status == LUA_OK) return;
  if (job.thrown == nullptr) throw_error(state_, status);
  lua_pop(state_, 1);
  std::rethrow_exception(job.thrown);
}

// ---- errors --------------------------------------------------------------------------------------------------------

bool is_run_error(const Error& error) {
  return error.kind() == ErrorKind::kStore || error.kind() == ErrorKind::kInterrupted;
}

void Runtime::keep_raised(lua_State* state, Raised raised, bool ends_run) {
  if (meter_.ended() != nullptr) return;
  raised_ = std::move(raised);
  if (ends_run) meter_.end(state, raised_.text);
}

// Message handler: converts any error object to a text and records the callers.
int Runtime::on_error(lua_State* state) {
  if (lua_type(state, 1) != LUA_TSTRING) {
    const bool has_text = luaL_getmetafield(state, 1, "__tostring") != LUA_TNIL;
    lua_settop(state, 1);
    if (has_text) {
      luaL_tolstring(state, 1, nullptr);
    } else {
      lua_pushfstring(state, "error() got a value of type %s; pass a string", luaL_typename(state, 1));
    }
  }
  of(state).trace(state, lua_tostring(state, -1));
  return 1;
}

// Records the lines of the Lua functions on the stack, that of the error first. An error already recorded at a deeper
// level is only propagating.
void Runtime::trace(lua_State* state, const char* text) {
  constexpr int kCallersShown = 8;
  if (text == traced_) return;
  traced_ = text;
  callers_.clear();
  lua_Debug frame{};
  for (int level = 1; callers_.size() <= kCallersShown && lua_getstack(state, level, &frame) != 0; ++level) {
    lua_getinfo(state, "Sln", &frame);
    if (frame.currentline <= 0) continue;
    const char* name = frame.name != nullptr ? frame.name : *frame.what == 'm' ? "the file" : "a function";
    callers_.push_back({SourceMark{frame.source + 1, frame.currentline, 0}, name});
  }
}

// Pops the error at the top of the stack and throws the corresponding exception.
void Runtime::throw_error(lua_State* state, int status) {
  size_t size = 0;
  const char* text = lua_tolstring(state, -1, &size);
  std::string message = text != nullptr ? std::string(text, size) : "an error without a message";
  lua_pop(state, 1);
  if (const std::string* const ended = meter_.ended()) message = *ended;  // even if the hook replaced the text
  const std::exception_ptr cause = message == raised_.text ? raised_.cause : nullptr;
  const bool leaves_the_hook = meter_.depth() == 0;
  if (leaves_the_hook) {
    raised_ = {};
    meter_.forget_end();
  }
  if (status == LUA_ERRMEM || message == WorkMeter::kNoMemory)
    message = fmt::format("the hook uses more than {} MiB of Lua memory", options_.budget.memory_bytes >> 20);
  // Frees the memory that would otherwise impede the next call.
  if (meter_.is_half_full()) lua_gc(state, LUA_GCCOLLECT);
  SourceMark where = files_.take_line(message);
  if (!where.known() && !callers_.empty()) where = callers_.front().line;
  Error error =
      cause == nullptr ? Error(ErrorKind::kRun, shortened(std::move(message)), std::move(where)) : thrown(cause, where);
  if (leaves_the_hook) note_callers(error);
  throw error;
}

void Runtime::note_callers(Error& error) {
  for (size_t i = 1; i < callers_.size(); ++i)
    error.note(fmt::format("called from {}, in {}", callers_[i].line.to_string(), callers_[i].function));
  callers_.clear();
  traced_.clear();
}

// ---- files ---------------------------------------------------------------------------------------------------------

// Pushes the first result of the file.
void Runtime::load_file(lua_State* state, const std::filesystem::path& file) {
  const std::string_view text = files_.read(file);
  const std::string chunk = "@" + file.string();
  if (luaL_loadbufferx(state, text.data(), text.size(), chunk.c_str(), "t") != LUA_OK) throw_error(state, LUA_ERRRUN);
  call(state, 0, 1);
}

void Runtime::run_file(const std::filesystem::path& file) {
  try {
    load_file(state_, file);
  } catch (const Error& error) {
    throw Error(ErrorKind::kRecipe, error.message(), error.where());
  }
}

void Runtime::add_module(const char* name, int (*open)(lua_State*)) {
  lua_getfield(state_, LUA_REGISTRYINDEX, kRequired);
  lua_pushcfunction(state_, open);
  call(state_, 0, 1);
  lua_setfield(state_, -2, name);
  lua_pop(state_, 1);
}

// require "name": a built-in module, or the result of a file in the hook's folder, which runs once.
int Runtime::require(lua_State* state) {
  Runtime& runtime = Runtime::of(state);
  const std::string name(text_argument(state, 1));
  lua_settop(state, 1);
  lua_getfield(state, LUA_REGISTRYINDEX, kRequired);
  if (lua_getfield(state, 2, name.c_str()) != LUA_TNIL) {
    RUN_CHECK(!lua_islightuserdata(state, -1), ErrorKind::kRun, "require: '{}' requires itself", name);
    return 1;
  }
  const std::filesystem::path& folder = runtime.options_.folder;
  const std::filesystem::path file = file_of_module(name, folder);
  if (!runtime.files_.is_recorded(file)) check_module_file(file, folder, name);
  lua_pushlightuserdata(state, &runtime);  // marks a module that is being loaded
  lua_setfield(state, 2, name.c_str());
  try {
    runtime.load_file(state, file);
  } catch (...) {
    lua_pushnil(state);
    lua_setfield(state, 2, name.c_str());
    throw;
  }
  if (lua_isnil(state, -1)) lua_pushboolean(state, 1);
  lua_pushvalue(state, -1);
  lua_setfield(state, 2, name.c_str());
  return 1;
}

// ---- random numbers ------------------------------------------------------------------------------------------------

uint64_t Runtime::draw() {
  if (random_source_) return random_source_();
  // Counter word 3 identifies the use. Dropout layers and the data path use other values.
  constexpr uint32_t kUse = 0x6c756101;
  const uint64_t at = draws_++;
  const auto block = backends::philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, kUse},
                                          {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

}  // namespace runner::lua
