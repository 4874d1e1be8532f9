// A sandboxed Lua 5.4 state that runs a hook file.
//
// Guarantees:
// - The code cannot access files or the system.
// - Each call has a budget of work, counted in instructions. The state has a memory budget.
// - A Lua error leaves as Error(kRun) with the line of the hook. An exception thrown by C++ code below Lua leaves as
//   the same exception.
// - Equal code gives equal results: pairs() visits keys in a fixed order, and math.random is a function of the seed and
//   the number of its calls.
//
// Not thread-safe: one thread at a time may use a Runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/lua/hook_sources.h"
#include "runner/lua/work_meter.h"
#include "schema/base/error.h"

struct lua_State;

namespace runner::lua {

struct RuntimeOptions {
  std::filesystem::path folder;  // folder of the hook file, in and below which `require` finds files
  uint64_t seed = 0;             // of math.random
  Budget budget = {};
  std::function<void(std::string_view)> print;  // receives the lines printed by print()
  std::vector<SourceFile> recorded = {};        // texts used instead of files with these paths, which need not exist
};

// Returns whether the error is not the hook's fault: an error of the store or an interruption. A hook can neither catch
// nor explain it.
bool is_run_error(const Error& error);

// Shortens an error message to some kB, because a hook can raise a text of any length.
std::string shortened(std::string message);

// An exception that propagates through Lua as a text.
struct Raised {
  std::exception_ptr cause;
  std::string text;
};

// Registry key: modules loaded by `require`, by name.
inline constexpr const char* kRequired = "runner.modules";

class Recording;  // recording.h

class Runtime {
 public:
  explicit Runtime(RuntimeOptions options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  static Runtime& of(lua_State* state);
  lua_State* state() const { return state_; }

  // Registers a built-in module of `require`. `open`: pushes one value.
  void add_module(const char* name, int (*open)(lua_State*));

  // Runs a file and pushes its first result. Throws Error(kRecipe) with the line if the file cannot be read, is not
  // valid Lua or fails.
  void run_file(const std::filesystem::path& file);

  // Calls the function below its `arguments` on the stack of `state` and leaves `results`. An outermost call gets a
  // fresh instruction budget. Throws the exception of a bound function, or Error(kRun). The error has the line of the
  // hook and a note for each caller.
  void call(lua_State* state, int arguments, int results);
  // Records the exception of a bound function that `state` called. `ends_run`: the run ends even if the hook catches
  // it.
  void keep_raised(lua_State* state, Raised raised, bool ends_run);
  // Runs `body`, which uses the Lua API. A Lua error within it, such as an exceeded memory budget, is thrown as
  // Error(kRun). `body` must leave the stack as it was.
  void protect(const std::function<void()>& body);

  WorkMeter& meter() { return meter_; }
  // Renews the budget within a call, for each iteration of a custom loop.
  void refill() { meter_.refill(state_); }
  // Charges work of C++ code to the instruction budget. Raises a Lua error if the budget is exceeded.
  void spend(lua_State* state, int64_t instructions) { meter_.spend(state, instructions); }

  // `interrupted`: polled during calls. Once it returns true, the call may use another tenth of its budget.
  void set_interrupted(std::function<bool()> interrupted) { meter_.interrupted = std::move(interrupted); }

  // Sets the seed of math.random.
  void set_seed(uint64_t seed) { seed_ = seed; }
  // Number of draws of math.random; with the seed, its complete state.
  uint64_t random_draws() const { return draws_; }
  void set_random_draws(uint64_t draws) { draws_ = draws; }
  // Returns the next number of math.random's stream.
  uint64_t draw();
  // Replaces the stream of math.random with `source`; an empty function restores it.
  void set_random_source(std::function<uint64_t()> source) { random_source_ = std::move(source); }

  // The hook file and the files that it required, in the order read.
  const std::vector<SourceFile>& sources() const { return files_.all(); }
  // Options used by the library functions.
  const RuntimeOptions& options() const { return options_; }
  // The recording to which tensors of this state belong. Set by the owner of the runtime, which must keep it alive.
  Recording* recording = nullptr;

 private:
  struct Caller {
    SourceMark line;
    std::string function;
  };

  static void* allocate(void* self, void* block, size_t old_size, size_t new_size);
  static int on_error(lua_State* state);
  static int require(lua_State* state);
  void load_file(lua_State* state, const std::filesystem::path& file);
  void trace(lua_State* state, const char* text);
  [[noreturn]] void throw_error(lua_State* state, int status);
  void note_callers(Error& error);

  const RuntimeOptions options_;
  WorkMeter meter_;
  HookSources files_;
  std::vector<Caller> callers_;                // of the newest error
  std::string traced_;                         // its text
  Raised raised_;                              // the newest exception of a bound function
  uint64_t seed_ = options_.seed, draws_ = 0;  // of math.random
  std::function<uint64_t()> random_source_;
  lua_State* state_ = nullptr;
};

}  // namespace runner::lua
