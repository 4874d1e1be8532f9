// A sandboxed Lua 5.4 state that runs a hook file.
//
// Promises: the code reaches neither files nor the system; each call has a budget of work, counted in instructions, and
// the state one of memory; whatever goes wrong in Lua comes out as Error(kRun) with the line of the hook, and what C++
// has thrown below it as the same exception; equal code gives equal results, so pairs() goes through keys in an order
// of its own and math.random is a function of (seed, how often it was called). Not thread-safe: a Runtime belongs to
// one thread at a time.
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
#include "schema/error.h"

struct lua_State;

namespace runner::lua {

struct RuntimeOptions {
  std::filesystem::path folder;  // of the hook file: where `require` finds files, and below it
  uint64_t seed = 0;             // of math.random
  Budget budget = {};
  std::function<void(std::string_view)> print;  // takes the lines that print() writes
  std::vector<Source> recorded = {};            // stand for the files of these paths, which need not be there
};

// Whether an error is no fault of the hook's, which neither catches nor explains it: the store's, and an interruption.
bool is_of_the_run(const Error& error);

// An exception on its way through Lua, where it is a text.
struct Raised {
  std::exception_ptr cause;
  std::string text;
};

// In the registry of a state: what `require` has loaded, by name.
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

  // What `require "name"` finds without a file; `open` leaves one value on the stack.
  void add_module(const char* name, int (*open)(lua_State*));

  // Runs a file and leaves its first result on the stack.  Throws Error(kRecipe) with the line where the file cannot be
  // read, is not Lua or fails.
  void run_file(const std::filesystem::path& file);

  // Calls the function below its `arguments` on the stack of `state`, with a fresh budget of instructions where no
  // other call is under way; leaves `results`.  Throws what a bound function has thrown, or Error(kRun), at the line of
  // the hook, with a note for each caller.
  void call(lua_State* state, int arguments, int results);
  // A bound function, called by `state`, has thrown.  `ends_run`: the hook cannot go on, whatever it catches.
  void keep_raised(lua_State* state, Raised raised, bool ends_run);
  // Runs `body`, which uses the Lua API, so that what goes wrong in Lua itself, such as a budget of memory that is
  // spent, comes out as Error(kRun) too.  Nothing may be left on the stack.
  void protect(const std::function<void()>& body);

  WorkMeter& meter() { return meter_; }
  // A fresh budget inside a call: a loop of the hook's own has come round.
  void refill() { meter_.refill(state_); }
  // Counts what C++ does for a call as so many instructions more.  Raises a Lua error where the budget is spent.
  void spend(lua_State* state, int64_t instructions) { meter_.spend(state, instructions); }

  // Asked while a call is under way: whether it should come to its end, for which it has a tenth of its budget then.
  void set_interrupted(std::function<bool()> interrupted) { meter_.interrupted = std::move(interrupted); }

  // That of math.random from now on.
  void set_seed(uint64_t seed) { seed_ = seed; }
  // How often math.random has drawn: with the seed, all that it is.
  uint64_t random_draws() const { return draws_; }
  void set_random_draws(uint64_t draws) { draws_ = draws; }
  // The next number of math.random's stream.
  uint64_t draw();
  // From now on it is `source` that gives those numbers.
  void set_random_source(std::function<uint64_t()> source) { random_source_ = std::move(source); }

  // The hook file and what it has required, in the order read.
  const std::vector<Source>& sources() const { return files_.all(); }
  // The options that the library functions work with.
  const RuntimeOptions& options() const { return options_; }
  // That tensors of this state belong to; the owner of the runtime sets it, and must keep it as long.
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
