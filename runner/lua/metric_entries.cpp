// The entries `metrics` and `modes` of a hook.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/hook_table.h"
#include "runner/lua/runtime.h"
#include "schema/recipe/metric_names.h"

namespace runner::lua {
namespace {

// ---- lists ---------------------------------------------------------------------------------------------------------

// Memory of a list in Lua 5.4: a header and 16 bytes per entry. The lists are created in protected mode, because they
// may exceed the memory budget of the hook.
constexpr int64_t list_bytes(int64_t entries) {
  return 56 + 16 * entries;
}

int64_t bytes_of(const train::EvaluatedSet& set) {
  const int64_t label = set.classes.empty() ? list_bytes(set.outputs) : 0;
  return set.samples * (list_bytes(set.outputs) + label + int64_t{2} * 16);
}

// `rows`: (samples, width).
void push_rows(lua_State* state, const std::vector<float>& rows, int64_t samples, int64_t width) {
  const float* at = rows.data();
  lua_createtable(state, static_cast<int>(samples), 0);
  for (int64_t i = 1; i <= samples; ++i) {
    lua_createtable(state, static_cast<int>(width), 0);
    for (int64_t j = 1; j <= width; ++j) {
      lua_pushnumber(state, static_cast<double>(*at++));
      lua_rawseti(state, -2, j);
    }
    lua_rawseti(state, -2, i);
  }
}

void push_targets(lua_State* state, const train::EvaluatedSet& set) {
  if (set.classes.empty()) return push_rows(state, set.targets, set.samples, set.outputs);
  lua_createtable(state, static_cast<int>(set.samples), 0);
  for (int64_t i = 1; i <= set.samples; ++i) {
    lua_pushinteger(state, set.classes[static_cast<size_t>(i - 1)]);
    lua_rawseti(state, -2, i);
  }
}

// Arguments: a function and an EvaluatedSet. Calls function(predictions, targets).
int call_metric(lua_State* state) {
  const auto& set = *static_cast<const train::EvaluatedSet*>(lua_touserdata(state, 2));
  lua_settop(state, 1);
  push_rows(state, set.predictions, set.samples, set.outputs);
  push_targets(state, set);
  lua_call(state, 2, 1);
  return 1;
}

// Pops the function at the top of the stack and returns its value.
double value_of(Runtime& runtime, const std::string& name, const train::EvaluatedSet& set) {
  lua_State* const state = runtime.state();
  lua_pushvalue(state, -1);
  const SourceMark defined = place_of_function(state);

  lua_pushcfunction(state, call_metric);
  lua_insert(state, -2);
  lua_pushlightuserdata(state, const_cast<train::EvaluatedSet*>(&set));  // used read-only
  try {
    runtime.call(state, 2, 1);
  } catch (const Error& error) {
    throw Error(error).locate(defined);
  }
  const bool is_number = lua_type(state, -1) == LUA_TNUMBER;
  const double value = lua_tonumber(state, -1);
  const std::string_view type = type_name(state, -1);
  lua_pop(state, 1);
  if (!is_number)
    throw Error(ErrorKind::kRun, fmt::format("metrics.{} returned {}, expected a number", name, type), defined);
  return value;
}

void check_size(const Runtime& runtime, const train::EvaluatedSet& set) {
  const auto limit = static_cast<int64_t>(runtime.options().budget.memory_bytes);
  RUN_CHECK(bytes_of(set) <= limit, ErrorKind::kRun,
            "metrics: predictions and targets of {} samples with {} outputs need {} MiB as Lua lists, limit {} MiB; "
            "evaluate on fewer samples, or return a metric from evaluation_step",
            set.samples, set.outputs, (bytes_of(set) >> 20) + 1, limit >> 20);
}

// Returns whether the value at the top is "max"; none if it is neither "max" nor "min".
std::optional<bool> mode_at_top(lua_State* state) {
  if (lua_type(state, -1) != LUA_TSTRING) return std::nullopt;
  const std::string text = lua_tostring(state, -1);
  return text == "max" || text == "min" ? std::optional(text == "max") : std::nullopt;
}

// Checks the table at the top, which has an entry for each metric. Reports `expected` if it is no table, and its keys.
// Calls `check_entry` for each name, with the value at the top.
void check_by_name(lua_State* state, const char* table, const char* expected, const ReportFault& report,
                   const std::function<void(const std::string& name)>& check_entry) {
  if (!lua_istable(state, -1))
    return report(fmt::format("{} is {}, expected {}", table, type_name(state, -1), expected), {});
  std::vector<std::string> names;
  try {
    names = metric_keys(state, -1, table);
  } catch (const Error& error) {
    return report(error.message(), {});
  }
  for (const std::string& name : names) {
    lua_getfield(state, -1, name.c_str());
    check_entry(name);
    lua_pop(state, 1);
  }
}

}  // namespace

void check_whole_metrics(lua_State* state, const ReportFault& report) {
  const auto check_entry = [&](const std::string& name) {
    if (!lua_isfunction(state, -1))
      report(fmt::format("metrics.{} is {}, expected a function", name, type_name(state, -1)), {});
    if (schema::is_metric_name(name))
      report(fmt::format("metrics.{} has the name of a built-in metric; choose another name, or use the built-in "
                         "metric in eval.metrics",
                         name),
             {});
  };
  check_by_name(state, "metrics", "a table of functions by name: { auc = function(predictions, targets) … end }",
                report, check_entry);
}

std::map<std::string, double> whole_metrics(Runtime& runtime, const train::EvaluatedSet& set) {
  lua_State* const state = runtime.state();
  std::map<std::string, double> values;
  check_size(runtime, set);
  for (const std::string& name : text_keys(state, -1)) {
    lua_getfield(state, -1, name.c_str());
    values[name] = value_of(runtime, name, set);
  }
  lua_pop(state, 1);
  return values;
}

void check_modes(lua_State* state, const ReportFault& report) {
  const auto check_entry = [&](const std::string& name) {
    if (!mode_at_top(state)) report(fmt::format("modes.{}: expected \"max\" or \"min\"", name), {});
    if (schema::is_metric_name(name)) report(fmt::format("modes.{}: the mode of a built-in metric is fixed", name), {});
    if (name.find('/') != name.npos)
      report(fmt::format("modes[\"{}\"]: write the name without the part before the slash", name), {});
  };
  check_by_name(state, "modes", "a table of \"max\" or \"min\" by name: { psnr = \"max\" }", report, check_entry);
}

std::map<std::string, bool, std::less<>> take_modes(lua_State* state) {
  std::map<std::string, bool, std::less<>> modes;
  for (const std::string& name : text_keys(state, -1)) {
    lua_getfield(state, -1, name.c_str());
    modes[name] = *mode_at_top(state);
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
  return modes;
}

}  // namespace runner::lua
