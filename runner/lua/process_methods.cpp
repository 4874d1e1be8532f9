// What acc offers about several processes, with Accelerate's names.  One process has nothing to wait for, and gathers
// what it has.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <lua.hpp>

#include "runner/lua/accelerator.h"
#include "runner/lua/bind.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/train/custom_loop.h"

namespace runner::lua {
namespace {

using backends::Collectives;

// Null: this process is the only one.
Collectives* replicas_of(const Accelerator& accelerator, std::string_view what) {
  return accelerator.recipe.num_processes == 1 ? nullptr : run_of(accelerator, what).replicas();
}

// The same where it is about to meet the others.
Collectives* replicas_to_meet(const Accelerator& accelerator, std::string_view what) {
  Collectives* const replicas = replicas_of(accelerator, what);
  if (replicas != nullptr && accelerator.loop != nullptr) accelerator.loop->catch_up();
  return replicas;
}

backends::Site site(lua_State* state, const Accelerator& accelerator, std::string_view what) {
  return {what, run_of(accelerator, what).step(), line_of_caller(state)};
}

// The processes between which the second argument travels; null: there is no other.
Collectives* replicas_for_value(lua_State* state, const Accelerator& accelerator, std::string_view what) {
  if (lua_isnone(state, 2)) bad_argument(state, 2, "a value");
  Collectives* const replicas = replicas_to_meet(accelerator, what);
  RUN_CHECK(replicas == nullptr || !is_tensor(state, 2), ErrorKind::kRun,
            "acc:{}: tensors of several processes do not work yet; numbers and tables of them do", what);
  return replicas;
}

// The second argument as every process has it, in their order.
std::vector<std::string> gather_texts(lua_State* state, const Accelerator& accelerator, Collectives& replicas,
                                      std::string_view what) {
  return replicas.gather_objects(plain_text(state, 2, std::string(what)), site(state, accelerator, what));
}

// Makes the value at the top a list with it alone.
int list_of_one(lua_State* state) {
  lua_createtable(state, 1, 0);
  lua_insert(state, -2);
  lua_rawseti(state, -2, 1);
  return 1;
}

// acc:f(x): a list with all of them.
int gather_object(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  Collectives* const replicas = replicas_for_value(state, accelerator, "gather_object");
  lua_settop(state, 2);
  if (replicas == nullptr) return list_of_one(state);
  const std::vector<std::string> texts = gather_texts(state, accelerator, *replicas, "gather_object");
  lua_createtable(state, static_cast<int>(texts.size()), 0);
  lua_Integer place = 0;
  for (const std::string& text : texts) {
    push_plain(state, text);
    lua_rawseti(state, -2, ++place);
  }
  return 1;
}

// Appends what is at the top, a list or one value, to the list below it, and pops it.
void append(lua_State* state) {
  auto place = static_cast<lua_Integer>(lua_rawlen(state, -2));
  if (!lua_istable(state, -1)) return lua_rawseti(state, -2, place + 1);
  const auto size = static_cast<lua_Integer>(lua_rawlen(state, -1));
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, -1, i);
    lua_rawseti(state, -3, ++place);
  }
  lua_pop(state, 1);
}

// acc:f(x): a tensor is joined with those of the others along the first axis, a list with their lists; numbers become a
// list.
int gather(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  Collectives* const replicas = replicas_for_value(state, accelerator, "gather");
  lua_settop(state, 2);
  if (replicas == nullptr) return is_tensor(state, 2) || lua_istable(state, 2) ? 1 : list_of_one(state);
  const std::vector<std::string> texts = gather_texts(state, accelerator, *replicas, "gather");
  lua_newtable(state);
  for (const std::string& text : texts) {
    push_plain(state, text);
    append(state);
  }
  return 1;
}

int gather_for_metrics(lua_State* state) {
  RUN_CHECK(accelerator_argument(state).recipe.num_processes == 1, ErrorKind::kRun,
            "acc:gather_for_metrics does not work with several processes yet; metrics that a step returns are merged");
  return gather(state);
}

int reduce(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  const std::string_view how = lua_isnoneornil(state, 3) ? "sum" : text_argument(state, 3);
  RUN_CHECK(how == "sum" || how == "mean" || how == "none", ErrorKind::kRun,
            "acc:reduce: unknown reduction '{}'; it is sum, mean or none", how);
  Collectives* const replicas = how == "none" ? nullptr : replicas_for_value(state, accelerator, "reduce");
  if (replicas == nullptr) return lua_settop(state, 2), 1;
  double value = number_argument(state, 2);
  replicas->all_reduce({backends::DType::kF64, {}}, std::as_writable_bytes(std::span(&value, 1)),
                       backends::Reduction::kSum, site(state, accelerator, "reduce"));
  lua_pushnumber(state, how == "mean" ? value / replicas->size() : value);
  return 1;
}

int broadcast(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  Collectives* const replicas = replicas_for_value(state, accelerator, "broadcast");
  lua_settop(state, 2);
  if (replicas != nullptr) push_plain(state, gather_texts(state, accelerator, *replicas, "broadcast").front());
  return 1;
}

// acc:f(list [, pad]): with zeros, or `pad`, behind it.
int pad_across_processes(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  Collectives* const replicas = replicas_for_value(state, accelerator, "pad_across_processes");
  const double pad = lua_isnoneornil(state, 3) ? 0 : number_argument(state, 3);
  lua_settop(state, 2);
  if (replicas == nullptr) return 1;
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a list");
  const auto size = static_cast<int64_t>(lua_rawlen(state, 2));
  int64_t longest = size;
  replicas->all_reduce({backends::DType::kI64, {}}, std::as_writable_bytes(std::span(&longest, 1)),
                       backends::Reduction::kMax, site(state, accelerator, "pad_across_processes"));
  lua_newtable(state);
  lua_insert(state, 2);
  append(state);
  for (int64_t place = size + 1; place <= longest; ++place) {
    lua_pushnumber(state, pad);
    lua_rawseti(state, 2, place);
  }
  return 1;
}

// acc:f(list, function): the function gets this process's part; the first ones get one more where it does not divide.
int split_between_processes(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a list");
  if (!lua_isfunction(state, 3)) bad_argument(state, 3, "a function of this process's part");
  lua_settop(state, 3);
  const auto size = static_cast<int64_t>(lua_rawlen(state, 2));
  const int64_t processes = accelerator.recipe.num_processes, index = process_index(accelerator);
  const int64_t begin = index * (size / processes) + std::min(index, size % processes);
  const int64_t end = begin + size / processes + (index < size % processes);
  lua_createtable(state, static_cast<int>(end - begin), 0);
  for (int64_t i = begin; i < end; ++i) {
    lua_rawgeti(state, 2, i + 1);
    lua_rawseti(state, 4, i - begin + 1);
  }
  lua_call(state, 1, LUA_MULTRET);
  return lua_gettop(state) - 2;
}

int wait_for_everyone(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  if (Collectives* const replicas = replicas_to_meet(accelerator, "wait_for_everyone"))
    replicas->barrier(site(state, accelerator, "wait_for_everyone"));
  return 0;
}

// acc:f(function): what the function returns.  A function of its own for each name that messages say.
template <char>
int run(lua_State* state) {
  accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  lua_call(state, 0, LUA_MULTRET);
  return lua_gettop(state) - 1;
}

// An error of the function's comes when the others have been let go.
int main_process_first(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  const bool first = process_index(accelerator) == 0;
  Collectives* const replicas = replicas_to_meet(accelerator, "main_process_first");
  const auto meet = [&] {
    if (replicas != nullptr) replicas->barrier(site(state, accelerator, "main_process_first"));
  };
  if (!first) meet();
  const int status = lua_pcall(state, 0, LUA_MULTRET, 0);
  if (first) meet();
  return status == LUA_OK ? lua_gettop(state) - 1 : lua_error(state);
}

int on_main_process(lua_State* state) {
  if (process_index(accelerator_argument(state)) == 0) return run<'m'>(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  return 0;
}

constexpr AcceleratorMethod kMethods[] = {
    {"accumulate", bound<run<'a'>>, "acc:accumulate(f)", "Runs f, a step on one batch of a window."},
    {"no_sync", bound<run<'n'>>, "acc:no_sync(f)", "Runs f, whose gradients stay with this process."},
    {"autocast", bound<run<'c'>>, "acc:autocast(f)", "Runs f; products are in the recipe's precision everywhere."},
    {"gather", bound<gather>, "acc:gather(x)", "Those of all processes, joined along the first axis."},
    {"gather_for_metrics", bound<gather_for_metrics>, "acc:gather_for_metrics(x)",
     "The same without repeated samples."},
    {"gather_object", bound<gather_object>, "acc:gather_object(value)", "A list with one value for each process."},
    {"reduce", bound<reduce>, "acc:reduce(x [, \"sum\", \"mean\" or \"none\"])", "Over all processes."},
    {"broadcast", bound<broadcast>, "acc:broadcast(x)", "That of process 0."},
    {"pad_across_processes", bound<pad_across_processes>, "acc:pad_across_processes(x)",
     "As long as the longest of all processes."},
    {"split_between_processes", bound<split_between_processes>, "acc:split_between_processes(list, f)",
     "Runs f with this process's part of a list."},
    {"wait_for_everyone", bound<wait_for_everyone>, "acc:wait_for_everyone()", "Waits until all processes are here."},
    {"main_process_first", bound<main_process_first>, "acc:main_process_first(f)",
     "Runs f in process 0 before the others."},
    {"on_main_process", bound<on_main_process>, "acc:on_main_process(f)", "Runs f in process 0 alone."},
};

}  // namespace

int process_index(const Accelerator& accelerator) {
  const Collectives* const replicas = replicas_of(accelerator, "process_index");
  return replicas != nullptr ? replicas->rank() : 0;
}

std::span<const AcceleratorMethod> process_methods() {
  return kMethods;
}

}  // namespace runner::lua
