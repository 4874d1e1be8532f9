#include "runner/lua/runtime.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <fstream>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/kernels/philox.h"
#include "runner/lua/bind.h"
#include "runner/lua/sandbox.h"
#include "schema/source_text.h"

namespace runner::lua {
namespace {

constexpr int kHookInterval = 10'000;  // instructions between two looks at the budget
// Memory costs time as well: to fill, to collect, and above all to go through where none is left.
constexpr int64_t kBytesPerInstruction = 4;
constexpr int kCallersShown = 8;
constexpr const char* kNoMemory = "not enough memory";  // Lua's own text, which it keeps ready

// Reads what Lua code may be.  Throws Error(kRecipe).
std::string read_source(const std::filesystem::path& file, const std::string& name) {
  constexpr size_t kLargest = size_t{16} << 20;  // bytes
  std::ifstream in(file, std::ios::binary);
  std::error_code ignored;
  const auto kind = std::filesystem::status(file, ignored).type();
  RUN_CHECK(in && kind != std::filesystem::file_type::directory, ErrorKind::kRecipe, "cannot read the hook {}: {}",
            name,
            kind == std::filesystem::file_type::directory   ? "it is a folder"
            : kind == std::filesystem::file_type::not_found ? "there is no such file"
                                                            : "it cannot be opened");
  std::string source;
  std::array<char, 4096> part{};
  while (in.read(part.data(), part.size()), in.gcount() > 0) {
    source.append(part.data(), static_cast<size_t>(in.gcount()));
    RUN_CHECK(source.size() <= kLargest, ErrorKind::kRecipe, "the hook {} is larger than {} MiB", name, kLargest >> 20);
  }
  RUN_CHECK(!source.starts_with(LUA_SIGNATURE), ErrorKind::kRecipe,
            "the hook {} is compiled Lua; hooks are Lua source text", name);
  RUN_CHECK(schema::is_utf8(source), ErrorKind::kRecipe, "the hook {} is not UTF-8 text", name);
  return source;
}

// What Lua is to read of a file, as the program lua does: no byte order mark, and no first line that begins with #; its
// newline stays, so that lines keep their numbers.
std::string_view code_of(std::string_view source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (source.starts_with(kByteOrderMark)) source.remove_prefix(kByteOrderMark.size());
  if (source.starts_with('#')) source.remove_prefix(std::min(source.find('\n'), source.size()));
  return source;
}

// "a.b" -> "a/b.lua"; empty where it is no module name.
std::filesystem::path file_of_module(std::string_view name) {
  std::string path;
  bool starts = true;
  for (const char c : name) {
    const bool word =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!word && (c != '.' || starts)) return {};
    path += c == '.' ? '/' : c;
    starts = c == '.';
  }
  return starts ? std::filesystem::path() : std::filesystem::path(path + ".lua");
}

// Throws where `file`, which require '`name`' asks for, is not there or is reached through a link that leaves `folder`.
void check_file(const std::filesystem::path& file, const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;  // a name that no file can have
  RUN_CHECK(std::filesystem::is_regular_file(file, ignored), ErrorKind::kRun,
            "require: there is no module '{}': neither built in nor {}", name, file.string());
  const std::filesystem::path real = std::filesystem::canonical(file);
  const std::filesystem::path root = std::filesystem::canonical(folder.empty() ? "." : folder);
  RUN_CHECK(std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end(), ErrorKind::kRun,
            "require: {} lies outside the hook's folder: a link leads there", file.string());
}

}  // namespace

int require(lua_State* state);

class Runtime::Impl {
 public:
  Impl(Runtime& owner, RuntimeOptions options)
      : owner_(owner), options_(std::move(options)), state_(lua_newstate(allocate, this)) {
    RUN_CHECK(state_ != nullptr, ErrorKind::kRun, "hooks: not enough memory");
    *static_cast<Impl**>(lua_getextraspace(state_)) = this;  // coroutines take it over
    seed = options_.seed;
    lua_atpanic(state_, [](lua_State*) -> int { assertion_failed("a Lua error reached nobody", __FILE__, __LINE__); });
    lua_pushcfunction(state_, [](lua_State* state) {
      open_sandbox(state, of(state).options_.budget.pattern_steps);
      lua_newtable(state);
      lua_setfield(state, LUA_REGISTRYINDEX, kRequired);
      lua_pushglobaltable(state);
      set_function(state, "require", bound<require>);
      return 0;
    });
    call(state_, 0, 0);
  }

  ~Impl() { lua_close(state_); }

  static Impl& of(lua_State* state) { return **static_cast<Impl**>(lua_getextraspace(state)); }

  Runtime& owner() const { return owner_; }
  lua_State* state() const { return state_; }
  const RuntimeOptions& options() const { return options_; }
  const std::vector<Source>& sources() const { return sources_; }
  uint64_t seed = 0, draws = 0;  // of math.random
  std::function<uint64_t()> random_source;
  std::function<bool()> interrupted;

  // Null where the file itself is to be read.
  const Source* recorded(const std::filesystem::path& file) const {
    const auto& all = options_.recorded;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Source& source) {
      return std::filesystem::path(source.path).lexically_normal() == file.lexically_normal();
    });
    return found == all.end() ? nullptr : &*found;
  }

  void refill() {
    if (ending_) return;
    budget_ = left_ = options_.budget.instructions;
    collected_ = 0;
    next_look_ = left_ - kHookInterval;
    lua_sethook(state_, on_count, LUA_MASKCOUNT, kHookInterval);
  }

  void spend(lua_State* state, int64_t instructions) {
    left_ -= std::min(instructions, options_.budget.instructions);
    if (left_ <= next_look_) look(state);
  }

  void keep_raised(lua_State* state, Raised raised, bool ends_run) {
    if (ending_) return;
    raised_ = std::move(raised);
    ending_ = ends_run;
    if (ending_) lua_sethook(state, on_count, LUA_MASKCOUNT, 1);
  }

  void call(lua_State* state, int arguments, int results) {
    if (depth_ == 0) refill();
    const int handler = lua_gettop(state) - arguments;
    lua_pushcfunction(state, on_error);
    lua_insert(state, handler);
    ++depth_;
    const int status = lua_pcall(state, arguments, results, handler);
    --depth_;
    lua_remove(state, handler);
    if (status == LUA_OK && !ending_) return;
    if (status == LUA_OK) {  // the last that the hook did was to catch it
      lua_settop(state, handler - 1);
      push_raised(state);
    }
    throw_error(state, status);
  }

  void protect(const std::function<void()>& body) {
    if (depth_ == 0) refill();
    Job job{body, nullptr};
    lua_pushcfunction(state_, run_job);
    lua_pushlightuserdata(state_, &job);
    const int status = lua_pcall(state_, 1, 0, 0);
    if (status == LUA_OK) return;
    if (job.thrown == nullptr) throw_error(state_, status);
    lua_pop(state_, 1);
    std::rethrow_exception(job.thrown);
  }

  // Leaves the first result of the file on the stack.
  void run_file(lua_State* state, const std::filesystem::path& file) {
    const std::string name = file.string();
    const Source* const known = recorded(file);
    sources_.push_back({name, known != nullptr ? known->text : read_source(file, name)});
    const std::string_view text = code_of(sources_.back().text);
    const std::string chunk = "@" + name;
    if (luaL_loadbufferx(state, text.data(), text.size(), chunk.c_str(), "t") != LUA_OK) throw_error(state, LUA_ERRRUN);
    call(state, 0, 1);
  }

 private:
  struct Job {
    const std::function<void()>& body;
    std::exception_ptr thrown;
  };

  // Lua's own errors pass through: they are no std::exception.
  static int run_job(lua_State* state) {
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

  // Allocates within the budget; null makes Lua collect, then fail.
  static void* allocate(void* self, void* block, size_t old_size, size_t new_size) {
    auto& impl = *static_cast<Impl*>(self);
    if (block == nullptr) old_size = 0;  // it says the kind of object then
    if (new_size == 0) {
      std::free(block);
      impl.used_ -= old_size;
      return nullptr;
    }
    if (new_size > old_size && impl.used_ + (new_size - old_size) > impl.options_.budget.memory_bytes)
      return impl.refuse(new_size);
    void* now = std::realloc(block, new_size);
    if (now == nullptr) return impl.refuse(new_size);
    if (new_size > old_size) {
      impl.refused_ = 0;
      impl.spend_bytes(new_size - old_size);
    }
    impl.used_ += new_size - old_size;
    return now;
  }

  // Lua collects and asks once more; where that does not help, the budget is spent.
  void* refuse(size_t size) {
    const bool spent = std::exchange(refused_, size) == size;
    if (!spent) {
      spend_bytes(used_);
      collected_ += static_cast<int64_t>(used_) / kBytesPerInstruction;
    }
    if (spent && depth_ > 0 && !ending_) {
      raised_ = {nullptr, kNoMemory};
      ending_ = true;
      lua_sethook(state_, on_count, LUA_MASKCOUNT, 1);
    }
    return nullptr;
  }

  // In the allocator, which must not raise an error: the next instruction looks at what is left.
  void spend_bytes(size_t bytes) {
    left_ -= static_cast<int64_t>(bytes) / kBytesPerInstruction;
    if (left_ <= next_look_ && depth_ > 0) lua_sethook(state_, on_count, LUA_MASKCOUNT, 1);
  }

  void push_raised(lua_State* state) const { lua_pushlstring(state, raised_.text.data(), raised_.text.size()); }

  static void on_count(lua_State* state, lua_Debug*) {
    Impl& impl = of(state);
    impl.left_ -= lua_gethookcount(state);
    impl.look(state);
  }

  // Once the budget is spent or the run over, every instruction is an error, so that no pcall outlives it.
  void look(lua_State* state) {
    next_look_ = left_ - kHookInterval;
    if (budget_ == options_.budget.instructions && interrupted && interrupted()) left_ = std::min(left_, budget_ /= 10);
    if (left_ > 0 && !ending_) {
      if (lua_gethookcount(state) != kHookInterval) lua_sethook(state, on_count, LUA_MASKCOUNT, kHookInterval);
      return;
    }
    lua_sethook(state, on_count, LUA_MASKCOUNT, 1);
    if (ending_) {
      push_raised(state);
      lua_error(state);
    }
    // Collections find less and less before there is no memory left at all, and each costs the same.
    if (collected_ > options_.budget.instructions / 4) {
      lua_pushstring(state, kNoMemory);
      lua_error(state);
    }
    luaL_error(state, "the hook has run for %d million Lua instructions%s: an endless loop?",
               static_cast<int>(budget_ / 1'000'000),
               budget_ == options_.budget.instructions ? "" : " after the run was interrupted");
  }

  // Message handler: turns any error object into a text and notes who called.
  static int on_error(lua_State* state) {
    if (lua_type(state, 1) != LUA_TSTRING) {
      const bool has_text = luaL_getmetafield(state, 1, "__tostring") != LUA_TNIL;
      lua_settop(state, 1);
      if (has_text) {
        luaL_tolstring(state, 1, nullptr);
      } else {
        lua_pushfstring(state, "the error is a %s, not a text", luaL_typename(state, 1));
      }
    }
    of(state).trace(state, lua_tostring(state, -1));
    return 1;
  }

  // Lines of Lua functions on the stack; the first is where it happened.  An error that has been noted deeper down is
  // on its way up.
  void trace(lua_State* state, const char* text) {
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

  // Throws what the error at the top of the stack, which is popped, stands for.
  [[noreturn]] void throw_error(lua_State* state, int status) {
    size_t size = 0;
    const char* text = lua_tolstring(state, -1, &size);
    std::string message = text != nullptr ? std::string(text, size) : "an error without a text";
    lua_pop(state, 1);
    if (ending_ && raised_.cause == nullptr) message = raised_.text;  // whatever became of it on its way
    const std::exception_ptr cause = ending_ || message == raised_.text ? raised_.cause : nullptr;
    const bool leaves_the_hook = depth_ == 0;
    if (leaves_the_hook) forget_raised();
    if (status == LUA_ERRMEM || message == kNoMemory)
      message = fmt::format("the hook needs more than {} MiB of Lua memory", options_.budget.memory_bytes >> 20);
    // Or what filled it would be in the way of the next call.
    if (used_ > options_.budget.memory_bytes / 2) lua_gc(state, LUA_GCCOLLECT);
    SourceMark where = take_line(message);
    if (!where.known() && !callers_.empty()) where = callers_.front().line;
    Error error = cause == nullptr ? Error(ErrorKind::kRun, shortened(std::move(message)), std::move(where))
                                   : thrown(cause, where);
    if (leaves_the_hook) note_callers(error);
    throw error;
  }

  // A text of the hook's own may be anything.
  static std::string shortened(std::string message) {
    constexpr size_t kLongest = 4096;  // bytes
    std::replace(message.begin(), message.end(), '\0', '?');
    if (message.size() <= kLongest) return message;
    size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80) --end;  // inside a character
    return fmt::format("{}… ({} bytes)", message.substr(0, end), message.size());
  }

  // What bound code threw.  Throws it as it is where a line of the hook would not explain it.
  static Error thrown(const std::exception_ptr& cause, const SourceMark& where) {
    try {
      std::rethrow_exception(cause);
    } catch (const Error& error) {
      if (is_of_the_run(error)) throw;
      return Error(error).locate(where);
    }
  }

  void note_callers(Error& error) {
    for (size_t i = 1; i < callers_.size(); ++i)
      error.note(fmt::format("called from {}, in {}", callers_[i].line.to_string(), callers_[i].function));
    callers_.clear();
    traced_.clear();
  }

  void forget_raised() {
    raised_ = {};
    ending_ = false;
  }

  // Cuts "file:12: " off the beginning of a message, where the file is one of ours.
  SourceMark take_line(std::string& message) const {
    for (const Source& source : sources_) {
      char shown[LUA_IDSIZE];  // Lua cuts long names
      const bool whole = source.path.size() < sizeof shown;
      const std::string name =
          whole ? source.path : "..." + source.path.substr(source.path.size() - (sizeof shown - sizeof "..."));
      for (const std::string& prefix : {source.path, name}) {
        if (!message.starts_with(prefix + ":")) continue;
        char* end = nullptr;
        const long line = std::strtol(message.c_str() + prefix.size() + 1, &end, 10);
        if (line <= 0 || end[0] != ':' || end[1] != ' ') continue;
        message.erase(0, static_cast<size_t>(end + 2 - message.c_str()));
        return {source.path, static_cast<int>(line), 0};
      }
    }
    return {};
  }

  struct Caller {
    SourceMark line;
    std::string function;
  };

  Runtime& owner_;
  const RuntimeOptions options_;
  size_t used_ = 0;        // bytes
  size_t refused_ = 0;     // the newest request that there was no memory for, in bytes; 0: it was helped
  int64_t budget_ = 0;     // of the call, in instructions
  int64_t left_ = 0;       // of it
  int64_t next_look_ = 0;  // at so many left
  int64_t collected_ = 0;  // spent on collections for want of memory, in instructions
  int depth_ = 0;          // of calls
  std::vector<Source> sources_;
  std::vector<Caller> callers_;  // of the newest error
  std::string traced_;           // its text
  Raised raised_;                // the newest exception of a bound function
  bool ending_ = false;          // it has ended the run
  lua_State* const state_;
};

// require "name": a built-in module, or the result of a file beside the hook file, run once.
int require(lua_State* state) {
  Runtime& runtime = Runtime::of(state);
  const std::string name(text_argument(state, 1));
  lua_settop(state, 1);
  lua_getfield(state, LUA_REGISTRYINDEX, kRequired);
  if (lua_getfield(state, 2, name.c_str()) != LUA_TNIL) {
    RUN_CHECK(!lua_islightuserdata(state, -1), ErrorKind::kRun, "require: '{}' requires itself", name);
    return 1;
  }
  const std::filesystem::path relative = file_of_module(name);
  RUN_CHECK(!relative.empty(), ErrorKind::kRun,
            "require: '{}' is no module name; write require \"lib.name\" for lib/name.lua beside the hook file", name);
  const std::filesystem::path& folder = runtime.options().folder;
  const std::filesystem::path file = (folder / relative).lexically_normal();
  if (runtime.impl_->recorded(file) == nullptr) check_file(file, folder, name);
  lua_pushlightuserdata(state, &runtime);  // being loaded
  lua_setfield(state, 2, name.c_str());
  try {
    runtime.impl_->run_file(state, file);
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

bool is_of_the_run(const Error& error) {
  return error.kind() == ErrorKind::kStore || error.kind() == ErrorKind::kInterrupted;
}

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>(*this, std::move(options))) {}
Runtime::~Runtime() = default;

Runtime& Runtime::of(lua_State* state) {
  return Impl::of(state).owner();
}

lua_State* Runtime::state() const {
  return impl_->state();
}

void Runtime::add_module(const char* name, int (*open)(lua_State*)) {
  lua_State* const state = impl_->state();
  lua_getfield(state, LUA_REGISTRYINDEX, kRequired);
  lua_pushcfunction(state, open);
  call(state, 0, 1);
  lua_setfield(state, -2, name);
  lua_pop(state, 1);
}

void Runtime::run_file(const std::filesystem::path& file) {
  try {
    impl_->run_file(impl_->state(), file);
  } catch (const Error& error) {
    throw Error(ErrorKind::kRecipe, error.message(), error.where());
  }
}

void Runtime::call(lua_State* state, int arguments, int results) {
  impl_->call(state, arguments, results);
}

void Runtime::keep_raised(lua_State* state, Raised raised, bool ends_run) {
  impl_->keep_raised(state, std::move(raised), ends_run);
}

void Runtime::protect(const std::function<void()>& body) {
  impl_->protect(body);
}

void Runtime::refill() {
  impl_->refill();
}

void Runtime::spend(lua_State* state, int64_t instructions) {
  impl_->spend(state, instructions);
}

void Runtime::set_interrupted(std::function<bool()> interrupted) {
  impl_->interrupted = std::move(interrupted);
}

void Runtime::set_seed(uint64_t seed) {
  impl_->seed = seed;
}

uint64_t Runtime::random_draws() const {
  return impl_->draws;
}

void Runtime::set_random_draws(uint64_t draws) {
  impl_->draws = draws;
}

const std::vector<Source>& Runtime::sources() const {
  return impl_->sources();
}

const RuntimeOptions& Runtime::options() const {
  return impl_->options();
}

void Runtime::set_random_source(std::function<uint64_t()> source) {
  impl_->random_source = std::move(source);
}

uint64_t Runtime::draw() {
  if (impl_->random_source) return impl_->random_source();
  // Counter word 3 names the use: dropout's layers and the data path have numbers of their own.
  constexpr uint32_t kUse = 0x6c756101;
  const uint64_t at = impl_->draws++;
  const uint64_t seed = impl_->seed;
  const auto block = backends::philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, kUse},
                                          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

}  // namespace runner::lua
