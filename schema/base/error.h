// The one exception type of the product, and the checks that throw it.
//
// A message says what failed, what was expected, what was found, where, and what to do. It is lower case, has no full
// stop and no stack trace, and is tested verbatim. Each kind determines the exit code of the process.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "schema/base/source_mark.h"

namespace runner {

enum class ErrorKind {
  kRun,          // the run failed: NaN loss, hook error, out of memory. Before a run is recorded, see unrecorded.h
  kUsage,        // command line
  kRecipe,       // the recipe is invalid
  kData,         // a data or weight file is missing, damaged or does not match the recipe
  kNotFound,     // no such run or checkpoint
  kInterrupted,  // stopped by a signal; a checkpoint is saved
  kStore,        // the store failed
};

// Returns the exit code of the process: 1 run; 2 usage, recipe and data (files are read before a run starts, so a
// recipe with an unusable file is invalid); 3 not found; 4 interrupted; 5 store.
int exit_code(ErrorKind kind);

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, SourceMark where = {});

  ErrorKind kind() const { return kind_; }
  void set_kind(ErrorKind kind) { kind_ = kind; }
  const std::string& message() const { return message_; }
  const SourceMark& where() const { return where_; }
  // "WHERE: MESSAGE", then a line "  note: …" for each note.
  const char* what() const noexcept override { return what_.c_str(); }

  // what() without the place.
  std::string_view text() const { return std::string_view(what_).substr(place_.size()); }

  // Run that the error is about, for JSON documents. Empty and 0 if unknown.
  struct Run {
    std::string id, name, backend;
    int64_t num_processes = 0;
  };
  const Run& run() const { return run_; }
  void set_run(Run run) { run_ = std::move(run); }

  // Key of the recipe that the error is about, such as "data.train", and its place there. Empty if unknown. For JSON
  // documents; the messages name the key.
  struct RecipePlace {
    std::string key;
    SourceMark mark;
  };
  const RecipePlace& in_recipe() const { return in_recipe_; }
  // Sets the key if there is none yet.
  void set_key(std::string_view key) {
    if (in_recipe_.key.empty()) in_recipe_.key = key;
  }
  void set_mark_of_key(SourceMark mark) { in_recipe_.mark = std::move(mark); }

  // Adds context while the stack unwinds ("while reading data.train"). Returns *this, for `throw e.note(…)`.
  Error& note(std::string_view text);
  // Sets the place if there is none yet.
  Error& locate(const SourceMark& where);
  // Replaces the place.
  Error& relocate(const SourceMark& where);

 private:
  ErrorKind kind_;
  std::string message_;
  SourceMark where_;
  std::string place_;  // "h.lua:3: "
  std::string what_;
  Run run_;
  RecipePlace in_recipe_;
};

// Returns work(). Its errors are about `key`, unless they name another one.
template <class Work>
auto about_key(std::string_view key, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.set_key(key);
    throw;
  }
}

// Throws Error(kind) with the formatted message.
[[noreturn, gnu::cold]] void fail_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args);

// Throws Error(kind) with the formatted message. Formatting and throwing are out of line, so that a check costs its
// caller a comparison and a call.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  fail_formatted(kind, format, fmt::make_format_args(args...));
}

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

// Input checks, always on.
#define RUN_CHECK(condition, kind, ...)                    \
  do {                                                     \
    if (!(condition)) ::runner::fail((kind), __VA_ARGS__); \
  } while (false)

// Programmer errors: aborts with file and line. Use it for errors that no input can cause.
#define RUN_ASSERT(condition)                                                     \
  do {                                                                            \
    if (!(condition)) ::runner::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)

}  // namespace runner
