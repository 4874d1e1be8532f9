// What acc offers about several processes, with Accelerate's names.  One process has nothing to wait for and nothing to
// gather.
#include <span>
#include <string>

#include <lua.hpp>

#include "runner/lua/accelerator.h"
#include "runner/lua/bind.h"

namespace runner::lua {
namespace {

// acc:f(x): x, of which there is one.
int same(lua_State* state) {
  accelerator_argument(state);
  if (lua_isnone(state, 2)) bad_argument(state, 2, "a value");
  lua_settop(state, 2);
  return 1;
}

int reduce(lua_State* state) {
  accelerator_argument(state);
  const std::string_view how = lua_isnoneornil(state, 3) ? "sum" : text_argument(state, 3);
  RUN_CHECK(how == "sum" || how == "mean" || how == "none", ErrorKind::kRun,
            "acc:reduce: unknown reduction '{}'; it is sum, mean or none", how);
  return same(state);
}

int gather_object(lua_State* state) {
  accelerator_argument(state);
  lua_settop(state, 2);
  lua_createtable(state, 1, 0);
  lua_insert(state, 2);
  lua_rawseti(state, 2, 1);
  return 1;
}

int nothing(lua_State* state) {
  accelerator_argument(state);
  return 0;
}

// acc:f(function): what the function returns.
int run(lua_State* state) {
  accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  lua_call(state, 0, LUA_MULTRET);
  return lua_gettop(state) - 1;
}

// acc:split_between_processes(list, function)
int split_between_processes(lua_State* state) {
  accelerator_argument(state);
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a list");
  if (!lua_isfunction(state, 3)) bad_argument(state, 3, "a function of this process's part");
  lua_settop(state, 3);
  lua_insert(state, 2);
  lua_call(state, 1, LUA_MULTRET);
  return lua_gettop(state) - 1;
}

constexpr AcceleratorMethod kMethods[] = {
    {"accumulate", bound<run>, "acc:accumulate(f)", "Runs f, a step on one batch of a window."},
    {"no_sync", bound<run>, "acc:no_sync(f)", "Runs f, whose gradients stay with this process."},
    {"autocast", bound<run>, "acc:autocast(f)", "Runs f; products are in the recipe's precision everywhere."},
    {"gather", bound<same>, "acc:gather(x)", "Those of all processes, joined along the first axis."},
    {"gather_for_metrics", bound<same>, "acc:gather_for_metrics(x)", "The same without repeated samples."},
    {"gather_object", bound<gather_object>, "acc:gather_object(value)", "A list with one value for each process."},
    {"reduce", bound<reduce>, "acc:reduce(x [, \"sum\", \"mean\" or \"none\"])", "Over all processes."},
    {"broadcast", bound<same>, "acc:broadcast(x)", "That of process 0."},
    {"pad_across_processes", bound<same>, "acc:pad_across_processes(x)", "As long as the longest of all processes."},
    {"split_between_processes", bound<split_between_processes>, "acc:split_between_processes(list, f)",
     "Runs f with this process's part of a list."},
    {"wait_for_everyone", bound<nothing>, "acc:wait_for_everyone()", "Waits until all processes are here."},
    {"main_process_first", bound<run>, "acc:main_process_first(f)", "Runs f in process 0 before the others."},
    {"on_main_process", bound<run>, "acc:on_main_process(f)", "Runs f in process 0 alone."},
};

}  // namespace

std::span<const AcceleratorMethod> process_methods() {
  return kMethods;
}

}  // namespace runner::lua
