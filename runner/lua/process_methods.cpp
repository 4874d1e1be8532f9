// Methods of `acc` for several processes, with the names of Accelerate. With one process, nothing waits, and gathered
// values are the process's own.
#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/accelerator.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/lua/value_exchange.h"
#include "runner/train/loop/custom_loop.h"

namespace runner::lua {
namespace {

using backends::ProcessGroup;

// Returns null for a single process.
ProcessGroup* process_group(const Accelerator& accelerator, std::string_view what) {
  return accelerator.recipe.num_processes == 1 ? nullptr : run_of(accelerator, what).ranks();
}

// Returns the exchange for a call acc:WHAT(value …).
ValueExchange exchange_of(lua_State* state, std::string_view what) {
  Accelerator& accelerator = accelerator_argument(state);
  if (lua_isnone(state, 2)) bad_argument(state, 2, "a value");
  return {state, accelerator, group_for_exchange(state, accelerator, what), what};
}

int gather(lua_State* state) {
  ValueExchange exchange = exchange_of(state, "gather");
  lua_settop(state, 2);
  exchange.gather(2, /*for_metrics=*/false);
  return 1;
}

int gather_for_metrics(lua_State* state) {
  ValueExchange exchange = exchange_of(state, "gather_for_metrics");
  lua_settop(state, 2);
  exchange.gather(2, /*for_metrics=*/true);
  return 1;
}

// acc:gather_object(x): a list with the value of each process.
int gather_object(lua_State* state) {
  const ValueExchange exchange = exchange_of(state, "gather_object");
  lua_settop(state, 2);
  lua_newtable(state);
  lua_Integer place = 0;
  for (const std::string& text : exchange.texts(2)) {
    push_plain(state, text);
    lua_rawseti(state, 3, ++place);
  }
  return 1;
}

int reduce(lua_State* state) {
  constexpr std::pair<std::string_view, train::Fold> kFolds[] = {
      {"sum", train::Fold::kSum}, {"mean", train::Fold::kMean}, {"max", train::Fold::kMax}};
  const std::string_view how = text_argument(state, 3, "sum");
  const auto fold = std::ranges::find(kFolds, how, [](const auto& row) { return row.first; });
  RUN_CHECK(fold != std::end(kFolds) || how == "none", ErrorKind::kRun,
            "acc:reduce: unknown reduction '{}'; expected sum, mean, max or none", how);
  if (how == "none") return lua_settop(state, 2), 1;
  ValueExchange exchange = exchange_of(state, "reduce");
  lua_settop(state, 2);
  exchange.reduce(2, fold->second);
  return 1;
}

int broadcast(lua_State* state) {
  ValueExchange exchange = exchange_of(state, "broadcast");
  lua_settop(state, 2);
  exchange.broadcast(2);
  return 1;
}

// acc:pad_across_processes(x [, pad [, axis]])
int pad_across_processes(lua_State* state) {
  const double pad = number_argument(state, 3, 0);
  const int64_t axis = integer_argument(state, 4, 1);
  ValueExchange exchange = exchange_of(state, "pad_across_processes");
  lua_settop(state, 2);
  exchange.pad_across_processes(2, pad, axis);
  return 1;
}

// acc:split_between_processes(list, function): calls the function with this process's part. If the list does not divide
// evenly, the first processes get one more element.
int split_between_processes(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a list");
  if (!lua_isfunction(state, 3)) bad_argument(state, 3, "a function that takes the part of this process");
  lua_settop(state, 3);
  const int64_t size = list_argument_size(state, 2);
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

// acc:wait_for_everyone([tag]). Messages show the tag as the name of the barrier.
int wait_for_everyone(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  std::string name = "wait_for_everyone";
  if (!lua_isnoneornil(state, 2)) {
    name = text_argument(state, 2);
    constexpr size_t kLongest = 37;  // bytes; with the quotes, as many as a Site keeps
    check_name(name, "wait_for_everyone", "a barrier");
    RUN_CHECK(name.size() <= kLongest, ErrorKind::kRun, "wait_for_everyone: the tag '{}' is longer than {} bytes", name,
              kLongest);
    name = fmt::format("'{}'", name);
  }
  if (ProcessGroup* const ranks = group_for_exchange(state, accelerator, "wait_for_everyone"))
    ranks->barrier(site_of(state, accelerator, name));
  return 0;
}

// acc:f(function): returns the results of the function. The template parameter makes one C function per name, because
// messages find the name by the C function.
template <char>
int run(lua_State* state) {
  accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  lua_call(state, 0, LUA_MULTRET);
  return lua_gettop(state) - 1;
}

int autocast(lua_State* state) {
  accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  const bool enabled = OptionTable(state, 3, {"enabled"}).flag("enabled", true);
  lua_settop(state, 2);
  const AutocastRegion region(*Runtime::of(state).recording, enabled);
  lua_call(state, 0, LUA_MULTRET);
  return lua_gettop(state) - 1;
}

// acc:join({even_batches = …}, f): returns the results of f.
int join(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  const OptionTable options(state, 2, {"even_batches"});
  if (!lua_isfunction(state, 3)) bad_argument(state, 3, "a function");
  RUN_CHECK(options.push("even_batches"), ErrorKind::kRun,
            "{0}: missing even_batches: acc:{0}({{even_batches = true or false}}, f)", called_as(state));
  const bool even = options.flag("even_batches", true);
  lua_settop(state, 3);
  const train::CustomLoop::EvenBatchesOverride even_batches(loop_of(accelerator, "join"), even);
  lua_call(state, 0, LUA_MULTRET);
  return lua_gettop(state) - 2;
}

// Rethrows an error of the function only after the other processes have been released.
int main_process_first(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  const bool first = process_index(accelerator) == 0;
  ProcessGroup* const ranks = group_for_exchange(state, accelerator, "main_process_first");
  const auto wait = [&] {
    if (ranks != nullptr) ranks->barrier(site_of(state, accelerator, "main_process_first"));
  };
  if (!first) wait();
  const int status = lua_pcall(state, 0, LUA_MULTRET, 0);
  if (first) wait();
  return status == LUA_OK ? lua_gettop(state) - 1 : lua_error(state);
}

int on_main_process(lua_State* state) {
  if (process_index(accelerator_argument(state)) == 0) return run<'m'>(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  return 0;
}

constexpr AcceleratorMethod kProcessMethods[] = {
    {"accumulate", bound<run<'a'>>, "acc:accumulate(f)", "Runs f, the work on one batch of an optimizer step."},
    {"no_sync", bound<run<'n'>>, "acc:no_sync(f)", "Runs f without all-reducing its gradients."},
    {"autocast", bound<autocast>, "acc:autocast(f [, {enabled = false}])",
     "Runs f with matrix products and convolutions in the recipe's mixed precision, or in f32."},
    {"join", bound<join>, "acc:join({even_batches = true or false}, f)",
     "Runs f with another even_batches: whether the last batches of an epoch are padded to equal sizes on all "
     "processes."},
    {"gather", bound<gather>, "acc:gather(x)", "The values of all processes, concatenated along the first axis."},
    {"gather_for_metrics", bound<gather_for_metrics>, "acc:gather_for_metrics(x)",
     "Like gather, without repeated samples."},
    {"gather_object", bound<gather_object>, "acc:gather_object(value)", "A list with one value for each process."},
    {"reduce", bound<reduce>, "acc:reduce(x [, how])",
     "Reduces over all processes: \"sum\", the default, \"mean\", \"max\" or \"none\"."},
    {"broadcast", bound<broadcast>, "acc:broadcast(x)", "The value of process 0."},
    {"pad_across_processes", bound<pad_across_processes>, "acc:pad_across_processes(x [, pad [, axis]])",
     "Pads x with zeros or `pad` to the longest of all processes."},
    {"split_between_processes", bound<split_between_processes>, "acc:split_between_processes(list, f)",
     "Runs f with the part of a list for this process."},
    {"wait_for_everyone", bound<wait_for_everyone>, "acc:wait_for_everyone([tag])",
     "Barrier: waits until all processes have called it, with the same tag, which errors show."},
    {"main_process_first", bound<main_process_first>, "acc:main_process_first(f)",
     "Runs f in process 0 first, then in the others."},
    {"on_main_process", bound<on_main_process>, "acc:on_main_process(f)", "Runs f in process 0 only."},
};

}  // namespace

ProcessGroup* group_for_exchange(lua_State* state, const Accelerator& accelerator, std::string_view what) {
  constexpr int64_t kInstructions = 20'000;
  ProcessGroup* const ranks = process_group(accelerator, what);
  if (ranks != nullptr) Runtime::of(state).spend(state, kInstructions);
  if (ranks != nullptr && accelerator.tensors != nullptr) accelerator.tensors->run_pending_collectives();
  return ranks;
}

backends::Site site_of(lua_State* state, const Accelerator& accelerator, std::string_view what) {
  return {what, run_of(accelerator, what).step(), line_of_caller(state)};
}

int process_index(const Accelerator& accelerator) {
  const ProcessGroup* const ranks = process_group(accelerator, "process_index");
  return ranks != nullptr ? ranks->rank() : 0;
}

std::span<const AcceleratorMethod> process_methods() {
  return kProcessMethods;
}

}  // namespace runner::lua
