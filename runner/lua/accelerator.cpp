#include "runner/lua/accelerator.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/bind.h"
#include "runner/lua/modules.h"
#include "runner/lua/runtime.h"
#include "schema/suggest.h"

namespace runner::lua {
namespace {

constexpr const char* kName = "acc";
constexpr const char* kModel = "runner.model";  // registry

// `acc` is one pointer; what it shows stands in the Accelerator.
Accelerator& self(lua_State* state) {
  auto* object = static_cast<Accelerator**>(luaL_testudata(state, 1, kName));
  if (object == nullptr) bad_argument(state, 1, "acc: write acc:name(…), with a colon");
  return **object;
}

train::RunControl& run_of(const Accelerator& accelerator, std::string_view what) {
  RUN_CHECK(accelerator.run != nullptr, ErrorKind::kRun, "acc.{} needs a run; none is under way here", what);
  return *accelerator.run;
}

int push_integer(lua_State* state, int64_t value) {
  lua_pushinteger(state, value);
  return 1;
}

int push_text(lua_State* state, std::string_view text) {
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

// ---- fields --------------------------------------------------------------------------------------------------------

// acc.metrics[name]: the newest value, nil before the first.
int metric(lua_State* state) {
  const Accelerator& accelerator = **static_cast<Accelerator**>(lua_touserdata(state, lua_upvalueindex(1)));
  const auto value = run_of(accelerator, "metrics").metric(std::string(text_argument(state, 2)));
  if (!value) return 0;
  lua_pushnumber(state, *value);
  return 1;
}

int push_metrics(lua_State* state, Accelerator&) {
  lua_newtable(state);
  lua_createtable(state, 0, 2);
  lua_pushvalue(state, 1);
  lua_pushcclosure(state, bound<metric>, 1);
  lua_setfield(state, -2, "__index");
  lua_pushboolean(state, 0);
  lua_setfield(state, -2, "__metatable");
  lua_setmetatable(state, -2);
  return 1;
}

struct Field {
  const char* name;
  int (*push)(lua_State*, Accelerator&);
  const char* text;
};

constexpr Field kFields[] = {
    {"model", [](lua_State* state, Accelerator&) { return lua_getfield(state, LUA_REGISTRYINDEX, kModel), 1; },
     "The model: acc.model(batch.features)."},
    {"metrics", push_metrics, "Newest values by name: acc.metrics[\"eval/accuracy\"]; nil before the first."},
    {"epoch", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "epoch").epoch()); },
     "Epochs finished."},
    {"step", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "step").step()); },
     "Optimizer steps finished."},
    {"steps", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "steps").steps()); },
     "Optimizer steps of the whole run."},
    {"run", [](lua_State* state, Accelerator& a) { return push_text(state, run_of(a, "run").run()); },
     "Id of the run."},
    {"name", [](lua_State* state, Accelerator& a) { return push_text(state, a.recipe.name); }, "Name of the run."},
    {"vars", [](lua_State* state, Accelerator& a) { return push_map(state, a.recipe.vars), 1; },
     "Values under `vars` in the recipe."},
    {"num_processes", [](lua_State* state, Accelerator& a) { return push_integer(state, a.recipe.num_processes); },
     "How many processes train."},
    {"process_index", [](lua_State* state, Accelerator&) { return push_integer(state, 0); },
     "Number of this process, from 0."},
    {"is_main_process", [](lua_State* state, Accelerator&) { return lua_pushboolean(state, 1), 1; },
     "Whether this is process 0."},
};

// ---- methods -------------------------------------------------------------------------------------------------------

int print(lua_State* state) {
  Accelerator& accelerator = self(state);
  std::string line;
  for (int i = 2; i <= lua_gettop(state); ++i) {
    size_t size = 0;
    const char* text = luaL_tolstring(state, i, &size);
    if (i > 2) line += '\t';
    line.append(text, size);
    lua_pop(state, 1);
  }
  run_of(accelerator, "print").print(line);
  return 0;
}

// acc:log{name = number, …}
int log(lua_State* state) {
  train::RunControl& run = run_of(self(state), "log");
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a table of numbers by name");
  std::vector<std::pair<std::string, double>> points;
  lua_pushnil(state);
  while (lua_next(state, 2) != 0) {
    RUN_CHECK(lua_type(state, -2) == LUA_TSTRING, ErrorKind::kRun, "log: a name is {}, expected a text",
              type_name(state, -2));
    const std::string name = lua_tostring(state, -2);
    RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER, ErrorKind::kRun, "log: {} is {}, expected a number", name,
              type_name(state, -1));
    points.emplace_back(name, lua_tonumber(state, -1));
    lua_pop(state, 1);
  }
  std::sort(points.begin(), points.end());  // so that series are numbered alike in every run
  for (const auto& [name, value] : points) run.log(name, value);
  return 0;
}

int set_trigger(lua_State* state) {
  run_of(self(state), "set_trigger").stop();
  return 0;
}

int save_state(lua_State* state) {
  run_of(self(state), "save_state").save();
  return 0;
}

struct Method {
  const char* name;
  int (*function)(lua_State*);
  const char* usage;
  const char* text;
};

constexpr Method kMethods[] = {
    {"print", bound<print>, "acc:print(value...)", "Writes a line to the screen."},
    {"log", bound<log>, "acc:log{name = number, ...}", "Records points of metrics at the step that is finished."},
    {"set_trigger", bound<set_trigger>, "acc:set_trigger()", "Ends the run after this step; its state is saved."},
    {"save_state", bound<save_state>, "acc:save_state()", "Saves a state at the end of this step."},
};

int index(lua_State* state) {
  Accelerator& accelerator = self(state);
  const std::string_view name = text_argument(state, 2);
  for (const Field& field : kFields)
    if (name == field.name) return field.push(state, accelerator);
  for (const Method& known : kMethods) {
    if (name != known.name) continue;
    lua_pushcfunction(state, known.function);
    return 1;
  }
  std::vector<std::string> names;
  for (const AcceleratorName& known : accelerator_names()) names.emplace_back(known.name);
  fail(ErrorKind::kRun, "acc has no '{}'; {}", name,
       schema::did_you_mean(name, names, fmt::format("it has {}", fmt::join(names, ", "))));
}

int no_assignment(lua_State* state) {
  fail(ErrorKind::kRun, "acc.{} cannot be set; keep values of your own in a local table", text_argument(state, 2));
}

}  // namespace

std::span<const AcceleratorName> accelerator_names() {
  static const std::vector<AcceleratorName> names = [] {
    std::vector<AcceleratorName> all;
    for (const Field& field : kFields) all.push_back({field.name, "", field.text});
    for (const Method& method : kMethods) all.push_back({method.name, method.usage, method.text});
    return all;
  }();
  return names;
}

void set_model(lua_State* state, nn::ModulePtr model) {
  push_module(state, std::move(model));
  lua_setfield(state, LUA_REGISTRYINDEX, kModel);
}

void push_accelerator(lua_State* state, Accelerator& accelerator) {
  auto** object = static_cast<Accelerator**>(lua_newuserdatauv(state, sizeof(void*), 0));
  *object = &accelerator;
  if (luaL_newmetatable(state, kName) != 0) {
    constexpr luaL_Reg kEntries[] = {{"__index", bound<index>}, {"__newindex", bound<no_assignment>}};
    for (const luaL_Reg& entry : kEntries) {
      lua_pushcfunction(state, entry.func);
      lua_setfield(state, -2, entry.name);
    }
    lua_pushboolean(state, 0);
    lua_setfield(state, -2, "__metatable");
  }
  lua_setmetatable(state, -2);
}

void push_map(lua_State* state, const schema::ValueMap& map) {
  lua_createtable(state, 0, static_cast<int>(map.size()));
  for (const auto& [name, value] : map) {
    push_value(state, value);
    lua_setfield(state, -2, name.c_str());
  }
}

void push_value(lua_State* state, const schema::Value& value) {
  if (value.boolean() != nullptr) {
    lua_pushboolean(state, *value.boolean());
  } else if (value.integer() != nullptr) {
    lua_pushinteger(state, *value.integer());
  } else if (value.number() != nullptr) {
    lua_pushnumber(state, *value.number());
  } else if (value.text() != nullptr) {
    push_text(state, *value.text());
  } else if (value.map() != nullptr) {
    push_map(state, *value.map());
  } else if (value.list() != nullptr) {
    lua_createtable(state, static_cast<int>(value.list()->size()), 0);
    lua_Integer at = 0;
    for (const schema::Value& element : *value.list()) {
      push_value(state, element);
      lua_rawseti(state, -2, ++at);
    }
  } else {
    lua_pushnil(state);
  }
}

}  // namespace runner::lua
