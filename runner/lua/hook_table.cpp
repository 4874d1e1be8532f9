#include "runner/lua/hook_table.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "schema/base/diagnostic.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::lua {
namespace {

using schema::Diagnostic;
using schema::ErrorId;
using train::HookEntry;
using train::HookEvent;

constexpr std::string_view kHookEntries[] = {"model",         "optimizers",      "schedule",     "trackers",
                                             "training_step", "evaluation_step", "transform",    "train",
                                             "metrics",       "modes",           "on_run_begin", "on_epoch_begin",
                                             "on_step_end",   "on_evaluation",   "on_epoch_end", "on_run_end"};
static_assert(std::size(kHookEntries) == place_of(HookEvent::kCount));

// Returns line `number`, from 1, without its end, or an empty text if there is no such line.
std::string_view line_at(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Returns the position of "name =" in a line, as a table entry is written, or npos.
size_t entry_in(std::string_view line, std::string_view name) {
  for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const size_t next = line.find_first_not_of(" \t", at + name.size());
    const bool is_set = next != std::string_view::npos && line[next] == '=' && line.substr(next, 2) != "==";
    if (is_set && (at == 0 || !is_word_byte(line[at - 1]))) return at;
  }
  return std::string_view::npos;
}

class TableCheck {
 public:
  TableCheck(lua_State* state, const SourceFile& file) : state_(state), file_(file) {}

  // The table is at the top of the stack.
  void run() {
    check_names();
    for (size_t i = 0; i < std::size(kHookEntries); ++i) {
      if (!push_field(state_, -1, kHookEntries[i].data())) continue;
      check_entry(i);
      lua_settop(state_, table_);
    }
    if (!problems_.empty()) throw schema::RecipeError(std::move(problems_));
  }

 private:
  void check_names() {
    for (const std::string& name : text_keys(state_, table_)) {
      if (std::ranges::find(kHookEntries, name) != std::end(kHookEntries)) continue;
      lua_pushlstring(state_, name.data(), name.size());
      lua_rawget(state_, table_);
      const std::vector<std::string> known(std::begin(kHookEntries), std::end(kHookEntries));
      add(ErrorId::kUnknownKey, name, fmt::format("unknown hook entry '{}'", visible(name)),
          schema::did_you_mean(name, known, ""));
    }
    if (push_key_of_no_text()) {
      const std::string key = fmt::format("[{}]", text_of(state_, -1));
      add(ErrorId::kUnknownKey, key, fmt::format("unknown hook entry {}", key), "");
    }
    if (problems_.empty()) return;
    std::string& hint = problems_.back().hint;
    hint += fmt::format("{}the entries are {}", hint.empty() ? "" : " ", fmt::join(kHookEntries, ", "));
  }

  bool push_key_of_no_text() {
    lua_pushnil(state_);
    for (; lua_next(state_, table_) != 0; lua_pop(state_, 1)) {
      if (lua_type(state_, -2) == LUA_TSTRING) continue;
      lua_pop(state_, 1);
      return true;
    }
    return false;
  }

  // The value is at the top of the stack.
  void check_entry(size_t entry) {
    const std::string name(kHookEntries[entry]);
    const auto report = [&](const std::string& message, const SourceMark& where) {
      lua_pushnil(state_);  // popped by add()
      add(ErrorId::kWrongType, name, message, "");
      if (where.known()) move_to(problems_.back(), where);
    };
    if (entry == place_of(HookEntry::kMetrics)) return check_whole_metrics(state_, report);
    if (entry == place_of(HookEntry::kModes)) return check_modes(state_, report);
    if (entry == place_of(HookEntry::kTrackers)) return check_trackers(state_, report);
    if (lua_isfunction(state_, -1)) return;
    const std::string message = fmt::format("{} is {}, expected a function", name, type_name(state_, -1));
    add(ErrorId::kWrongType, name, message, "");
  }

  // Adds a diagnostic for an entry and pops the entry's value from the top of the stack.
  void add(ErrorId id, const std::string& name, const std::string& message, const std::string& hint) {
    Diagnostic problem{
        .id = id, .where = {}, .width = 1, .key = name, .message = message, .hint = hint, .source_line = {}};
    const SourceMark defined =
        lua_isfunction(state_, -1) ? place_of_function(state_) : (lua_pop(state_, 1), SourceMark());
    const int guess = defined.file == file_.path ? defined.line : 1;
    point_at(problem, guess, 0, 1);
    for (int line = guess; line <= lines_; ++line) {  // the function may be defined before its entry
      const size_t at = entry_in(line_at(file_.text, line), name);
      if (at == std::string_view::npos) continue;
      point_at(problem, line, at, static_cast<int>(name.size()));
      break;
    }
    problems_.push_back(std::move(problem));
  }

  void point_at(Diagnostic& problem, int line, size_t at, int width) const {
    const std::string_view text = line_at(file_.text, line);
    problem.where = {file_.path, line, count_characters(text.substr(0, at)) + 1};
    problem.width = width;
    problem.source_line = visible(text);
  }

  // The mark may be in a file that this one requires.
  void move_to(Diagnostic& problem, const SourceMark& where) const {
    const size_t text = line_at(file_.text, where.line).find_first_not_of(" \t");
    point_at(problem, where.line, text == std::string_view::npos ? 0 : text, 1);
    if (where.file == file_.path) return;
    problem.where = {where.file, where.line, 1};
    problem.source_line.clear();
  }

  lua_State* const state_;
  const SourceFile& file_;
  const int table_ = lua_gettop(state_);
  const int lines_ = static_cast<int>(std::ranges::count(file_.text, '\n')) + 1;
  std::vector<Diagnostic> problems_;
};

}  // namespace

void check_hook_table(lua_State* state, const SourceFile& file) {
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRecipe,
            "the hook {} returned {}, expected a table of functions: return {{ training_step = function(acc, batch) … "
            "end }}",
            file.path, type_name(state, -1));
  TableCheck(state, file).run();
}

std::span<const std::string_view> hook_entries() {
  return kHookEntries;
}

}  // namespace runner::lua
