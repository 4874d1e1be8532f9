#include "runner/lua/optimizers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/document.h"
#include "runner/lua/modules.h"
#include "runner/lua/seal.h"
#include "runner/optim/lr_schedule.h"
#include "runner/optim/optimizer_def.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::lua {
namespace {

using schema::OptimizerType;

constexpr const char* kLuaOptimizerName = "optimizer";

// Userdata of an optimizer such as optim.Adam(module, {lr = …}): parameters and update rule.
struct LuaOptimizer {
  std::vector<std::pair<nn::ParameterId, nn::ParameterId>> parameters;  // ranges [first, end)
  optim::Rule rule;
  bool has_rate = false;
  SourceMark line = {};  // the line that created it
};

// ---- update rules in Lua -------------------------------------------------------------------------------------------

// An update rule in Lua: update(p, g, slots, lr, step) returns the new p and stores new values in `slots`. The function
// is in the registry of the Lua state under the address of this object.
class LuaRule : public optim::CustomRule {
 public:
  // Takes the function at the top of the stack and pops it.
  LuaRule(lua_State* state, std::vector<std::string> slots) : runtime_(Runtime::of(state)), slots_(std::move(slots)) {
    lua_rawsetp(state, LUA_REGISTRYINDEX, this);
  }
  ~LuaRule() override {
    lua_pushnil(runtime_.state());
    lua_rawsetp(runtime_.state(), LUA_REGISTRYINDEX, this);
  }

  std::vector<optim::Slot> slots() const override {
    std::vector<optim::Slot> slots;
    for (const std::string& name : slots_) slots.push_back({name});
    return slots;
  }

  optim::Updated update(Value parameters, Value gradient, std::span<const Value> slots, Value lr,
                        Value step) const override {
    lua_State* const state = runtime_.state();
    nn::HostValues host{.fixed = true};
    nn::ForwardContext forward{.program = *parameters.program, .host = &host};
    const RecordingScope scope(runtime_, forward);  // nests within the recording of a custom loop
    lua_rawgetp(state, LUA_REGISTRYINDEX, this);
    push_tensor(state, parameters);
    push_tensor(state, gradient);
    lua_createtable(state, 0, static_cast<int>(slots_.size()));
    for (size_t i = 0; i < slots_.size(); ++i) {
      push_tensor(state, slots[i]);
      lua_setfield(state, -2, slots_[i].c_str());
    }
    refuse_unknown(state, "slots", /*closed=*/true);
    lua_pushvalue(state, -1);
    lua_insert(state, -5);  // below the function, to be read after the call
    push_tensor(state, lr);
    push_tensor(state, step);
    runtime_.call(state, 5, 1);
    optim::Updated now{checked(state, "the result of update", parameters), {}, {}};
    if (now.parameters.id == parameters.id)
      throw Error(ErrorKind::kRun,
                  "update returned p itself, so nothing is trained; return the new parameters, such as p - lr * g, or "
                  "use model.freeze for parameters that must not change",
                  place());
    lua_pop(state, 1);
    for (const std::string& name : slots_) {
      lua_pushlstring(state, name.data(), name.size());
      lua_rawget(state, -2);
      now.slots.push_back(checked(state, fmt::format("slots.{}", name), parameters));
      lua_pop(state, 1);
    }
    lua_pop(state, 1);
    now.numbers = std::move(host.traced);
    return now;
  }

 private:
  Value checked(lua_State* state, std::string_view what, Value like) const {
    if (!is_tensor(state, -1))
      throw Error(ErrorKind::kRun, fmt::format("{} is {}, expected a tensor", what, type_name(state, -1)), place());
    const Value value = tensor_value(state, -1, what);
    if (value.type() != like.type())
      throw Error(ErrorKind::kRun,
                  fmt::format("{} is {}, expected {} like the parameters", what, value.type(), like.type()), place());
    return value;
  }

  // Where the function is defined.
  SourceMark place() const {
    lua_rawgetp(runtime_.state(), LUA_REGISTRYINDEX, this);
    return place_of_function(runtime_.state());
  }

  Runtime& runtime_;
  const std::vector<std::string> slots_;
};

// ---- constructors --------------------------------------------------------------------------------------------------

// Converts the option at the top of the stack: a number, a boolean, a text, or a list of numbers.
schema::Value option_value(lua_State* state, const std::string& name) {
  if (lua_type(state, -1) == LUA_TNUMBER && !lua_isinteger(state, -1))
    RUN_CHECK(std::isfinite(lua_tonumber(state, -1)), ErrorKind::kRun, "{} is {}, expected a finite number", name,
              std::isnan(lua_tonumber(state, -1)) ? "NaN" : "infinite");
  if (lua_isboolean(state, -1)) return lua_toboolean(state, -1) != 0;
  if (lua_isinteger(state, -1)) return static_cast<int64_t>(lua_tointeger(state, -1));
  if (lua_type(state, -1) == LUA_TNUMBER) return lua_tonumber(state, -1);
  if (lua_type(state, -1) == LUA_TSTRING) return std::string(lua_tostring(state, -1));
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun, "{} is {}, expected a number", name, type_name(state, -1));
  schema::ValueList list;
  const int64_t size = list_size(state, -1, name);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, -1, i);
    const std::string element = fmt::format("{}[{}]", name, i);
    RUN_CHECK(!lua_istable(state, -1), ErrorKind::kRun, "{} is a table, expected a number", element);
    list.push_back(option_value(state, element));
    lua_pop(state, 1);
  }
  return list;
}

schema::ValueMap options_of(lua_State* state, int index) {
  schema::ValueMap options;
  if (lua_isnoneornil(state, index)) return options;
  if (!lua_istable(state, index)) bad_argument(state, index, "a table of options");
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    RUN_CHECK(lua_type(state, -2) == LUA_TSTRING, ErrorKind::kRun, "options have names: {{lr = 0.001}}");
    const std::string name = lua_tostring(state, -2);
    options.emplace_back(name, option_value(state, name));
    lua_pop(state, 1);
  }
  std::sort(options.begin(), options.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return options;
}

// Reads a module or a list of modules.
std::vector<std::pair<nn::ParameterId, nn::ParameterId>> parameters_of(lua_State* state, int index) {
  std::vector<std::pair<nn::ParameterId, nn::ParameterId>> ranges;
  const auto add = [&](int at) {
    const nn::ModulePtr module = module_value(state, at, "the parameters of an optimizer");
    const auto range = module->declared();
    RUN_CHECK(range.first < range.second, ErrorKind::kRun,
              "the module has no parameters in the model; create optimizers in the hook entry `optimizers`, from the "
              "model passed to it");
    ranges.push_back(range);
  };
  if (is_module(state, index) || !lua_istable(state, index)) {
    add(index);
    return ranges;
  }
  const int64_t size = list_size(state, index, "the parameters of an optimizer");
  RUN_CHECK(size > 0, ErrorKind::kRun, "an optimizer needs a module or a list of modules");
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, index, i);
    add(-1);
    lua_pop(state, 1);
  }
  return ranges;
}

int push_optimizer(lua_State* state, LuaOptimizer optimizer) {
  void* place = lua_newuserdatauv(state, sizeof(LuaOptimizer), 0);
  new (place) LuaOptimizer(std::move(optimizer));
  luaL_setmetatable(state, kLuaOptimizerName);
  return 1;
}

bool has_rate(const schema::ValueMap& options) {
  return std::any_of(options.begin(), options.end(), [](const auto& option) { return option.first == "lr"; });
}

// Converts index and list syntax in a message about YAML to that of Lua: "betas[0]" to betas[1], and "[0.9, 0.999]" to
// {0.9, 0.999}.
std::string in_lua(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t open = text.find('['), close = text.find(']', open);
    if (close == std::string_view::npos) break;
    const std::string_view inner = text.substr(open + 1, close - open - 1);
    const bool is_index = inner.size() == 1 && inner[0] >= '0' && inner[0] < '9' && open > 0 && text[open - 1] != ' ';
    result += text.substr(0, open);
    result += is_index ? fmt::format("[{}]", inner[0] - '0' + 1) : fmt::format("{{{}}}", inner);
    text.remove_prefix(close + 1);
  }
  return result.append(text);
}

schema::OptimizerSpec read_options(std::string_view type, const schema::ValueMap& options) {
  try {
    return schema::read_optimizer(type, options);
  } catch (const Error& error) {
    fail(error.kind(), "{}", in_lua(error.message()));
  }
}

template <OptimizerType type>
int declared(lua_State* state) {
  lua_settop(state, 2);
  const std::string_view name = name_of(type);
  const schema::ValueMap options = options_of(state, 2);
  const schema::OptimizerSpec spec = read_options(name, options);
  RUN_CHECK(spec.no_decay == schema::NoDecay::kNone, ErrorKind::kRun,
            "no_decay is a key of the recipe's optimizer; give biases and norms an optimizer of their own, with "
            "weight_decay = 0");
  return push_optimizer(state,
                        {parameters_of(state, 1), {spec.type, spec.hyper}, has_rate(options), line_of_caller(state)});
}

std::vector<std::string> slot_names(lua_State* state, int index) {
  std::vector<std::string> names;
  if (!push_field(state, index, "slots")) return names;
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun, "slots is {}, expected a list of names", type_name(state, -1));
  const int64_t size = list_size(state, -1, "slots");
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, -1, i);
    if (lua_type(state, -1) != LUA_TSTRING) bad_option(state, fmt::format("slots[{}]", i), "a name");
    std::string name(text_argument(state, -1));
    check_name(name, "slots", "a slot");
    RUN_CHECK(name.find('/') == std::string::npos && std::ranges::count(names, name) == 0, ErrorKind::kRun,
              "slots: '{}' contains a / or is listed twice", name);
    names.push_back(std::move(name));
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
  return names;
}

// optim.Optimizer(module, {lr = …, slots = {…}, update = function})
int custom(lua_State* state) {
  lua_settop(state, 2);
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a table with a function update");
  constexpr std::string_view kKnown[] = {"lr", "slots", "update"};
  check_keys(state, 2, "optim.Optimizer", kKnown);
  constexpr double kRate = 1e-3;  // default of torch's optimizers
  LuaOptimizer optimizer{parameters_of(state, 1), {OptimizerType::kHook, {.lr = kRate}}, false};
  if (push_field(state, 2, "lr")) {
    option_value(state, "lr");
    RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER && lua_tonumber(state, -1) >= 0, ErrorKind::kRun,
              "expected lr to be a number of at least 0, got {}", text_of(state, -1));
    optimizer.rule.hyper.lr = lua_tonumber(state, -1);
    optimizer.has_rate = true;
    lua_pop(state, 1);
  }
  std::vector<std::string> slots = slot_names(state, 2);
  RUN_CHECK(push_field(state, 2, "update") && lua_isfunction(state, -1), ErrorKind::kRun,
            "optim.Optimizer needs a function: update = function(p, g, slots, lr, step) … end");
  optimizer.rule.custom = std::make_shared<LuaRule>(state, std::move(slots));
  return push_optimizer(state, std::move(optimizer));
}

#define RUNNER_LUA_OPTIMIZER(Name, torch_name) {torch_name, bound<declared<OptimizerType::k##Name>>},
constexpr OptimizerFunction kOptimizerFunctions[] = {
    RUNNER_OPTIMIZERS(RUNNER_LUA_OPTIMIZER){"Optimizer", bound<custom>},
};
#undef RUNNER_LUA_OPTIMIZER

int collect_optimizer(lua_State* state) {
  static_cast<LuaOptimizer*>(luaL_checkudata(state, 1, kLuaOptimizerName))->~LuaOptimizer();
  return 0;
}

int no_entry(lua_State* state) {
  fail(ErrorKind::kRun,
       "an optimizer of optim has no '{}'; return it from the entry `optimizers`, and use it in `train` as "
       "acc.optimizer or acc.optimizers.NAME",
       text_of(state, 2));
}

int missing_optimizer(lua_State* state) {
  fail_unknown("optim has no", key_argument(state, "optim"), names_of(kOptimizerFunctions));
}

const LuaOptimizer& optimizer_at_top(lua_State* state, const std::string& name) {
  const auto* optimizer = static_cast<const LuaOptimizer*>(luaL_testudata(state, -1, kLuaOptimizerName));
  RUN_CHECK(optimizer != nullptr, ErrorKind::kRun,
            "optimizers returned {}{}, expected an optimizer of optim or a table of named optimizers",
            name.empty() ? "" : fmt::format("{} = ", name), type_name(state, -1));
  return *optimizer;
}

}  // namespace

std::span<const OptimizerFunction> optimizer_functions() {
  return kOptimizerFunctions;
}

void open_optimizers(lua_State* state) {
  luaL_newmetatable(state, kLuaOptimizerName);
  set_function(state, "__gc", collect_optimizer);
  set_function(state, "__index", bound<no_entry>);
  set_function(state, "__newindex", bound<no_entry>);
  protect_metatable(state);
  lua_pop(state, 1);
}

int open_optim(lua_State* state) {
  lua_newtable(state);
  set_functions(state, kOptimizerFunctions);
  return open_library(state, "optim", bound<missing_optimizer>);
}

train::Optimizers take_optimizers(lua_State* state, const nn::Model& model, const schema::Recipe& recipe) {
  std::map<std::string, LuaOptimizer> by_name;
  if (lua_istable(state, -1)) {
    lua_pushnil(state);
    while (lua_next(state, -2) != 0) {
      RUN_CHECK(lua_type(state, -2) == LUA_TSTRING, ErrorKind::kRun,
                "optimizers returned a table with the key {}, expected names as keys", type_name(state, -2));
      const std::string name(text_argument(state, -2));
      check_name(name, "optimizers", "an optimizer");
      by_name.emplace(name, optimizer_at_top(state, name));
      lua_pop(state, 1);
    }
    RUN_CHECK(!by_name.empty(), ErrorKind::kRun, "optimizers returned an empty table");
  } else {
    by_name.emplace("", optimizer_at_top(state, ""));
  }
  lua_pop(state, 1);

  train::Optimizers optimizers;
  std::map<nn::ParameterId, std::string> taken;
  for (auto& [name, optimizer] : by_name) {
    train::OptimizerGroup group{
        static_cast<int32_t>(optimizers.names.size()), {}, std::move(optimizer.rule), optimizer.line};
    if (!optimizer.has_rate && recipe.hook_lr) group.rule.hyper.lr = *recipe.hook_lr;
    group.rule.hyper = optim::under_schedule(group.rule.hyper, recipe.scheduler);
    for (const auto& [first, end] : optimizer.parameters) {
      for (nn::ParameterId id = first; id < end; ++id) {
        const auto [known, is_new] = taken.emplace(id, name);
        RUN_CHECK(is_new, ErrorKind::kRun, "parameter {} is in two optimizers{}", model.parameters[id].name,
                  name.empty() ? "" : fmt::format(", {} and {}", known->second, name));
        group.params.push_back(model.parameters[id].name);
      }
    }
    optimizers.names.push_back(name);
    optimizers.groups.push_back(std::move(group));
  }
  optimizers.lr = optimizers.groups.front().rule.hyper.lr;
  return optimizers;
}

}  // namespace runner::lua
