#include "tests/lua/lua_step.h"

#include <lua.hpp>

#include "backends/exec/cpu_device.h"
#include "runner/lua/modules.h"
#include "runner/lua/tensor.h"
#include "schema/base/error.h"
#include "tests/backends/support/run_program.h"

namespace runner::lua {

LuaStep::LuaStep(nn::Autocast autocast)
    : forward_{.program = program_,
               .parameters = {},
               .mixed = autocast,
               .autocast = autocast,
               .training = true,
               .dropout_key = {},
               .sample_ids = {}},
      runtime_({}) {
  runtime_.recording = &recording_;
  open_tensors(runtime_.state());
  open_modules(runtime_.state());
  runtime_.add_module("nn", open_nn);
  forward_.host = &host_;
  forward_.draw_key = input("key", HostTensor({backends::DType::kI64, backends::Shape{2}}, [](int64_t) { return 1; }));
  recording_.begin(runtime_.state(), forward_, [this](Value value) { return compute(value).values(); });
}

LuaStep::~LuaStep() {
  recording_.end();
}

Value LuaStep::input(const std::string& name, HostTensor tensor) {
  const Value value{&program_, program_.input(backends::InputKind::kBatch, name, tensor.type)};
  inputs_.push_back(std::move(tensor));
  return names_[name] = value;
}

void LuaStep::declare(nn::Module& module) {
  module.declare(declared_, "");
  for (const nn::Parameter& parameter : declared_.parameters())
    parameters_.push_back(
        input(parameter.name, HostTensor({backends::DType::kF32, parameter.shape}, [](int64_t) { return 1.0; })));
  forward_.parameters = parameters_;
}

void LuaStep::run(const std::string& code) {
  lua_State* const state = runtime_.state();
  std::string chunk = "local nn = require 'nn' local names = ...";
  for (const auto& [name, value] : names_)
    if (name.find('.') == std::string::npos) chunk += " local " + name + " = names." + name;
  chunk += " return " + code;
  if (luaL_loadbufferx(state, chunk.data(), chunk.size(), "=step", "t") != LUA_OK)
    fail(ErrorKind::kRun, "{}", lua_tostring(state, -1));
  lua_newtable(state);
  for (const auto& [name, value] : names_) {
    push_tensor(state, value);
    lua_setfield(state, -2, name.c_str());
  }
  runtime_.call(state, 1, 1);
}

Value LuaStep::record(const std::string& code) {
  run(code);
  const Value value = tensor_value(runtime_.state(), -1, "the result");
  lua_settop(runtime_.state(), 0);
  return value;
}

HostTensor LuaStep::compute(Value value) {
  backends::Program program = program_;
  program.output("result", value.id);
  const auto device = backends::make_cpu_device(1);
  return backends::testing::run_program(*device, program, all_inputs()).outputs[0];
}

// Values of all inputs in the order of the program, including traced numbers.
std::vector<HostTensor> LuaStep::all_inputs() const {
  std::vector<HostTensor> all;
  size_t own = 0, scalar = 0, given = 0;
  for (const backends::Input& input : program_.inputs()) {
    const backends::TensorType& type = program_.type(input.value);
    if (input.kind == backends::InputKind::kScalar) {
      all.emplace_back(type, [value = host_.scalars[scalar++]](int64_t) { return value; });
    } else if (names_.contains(input.name)) {
      all.push_back(inputs_[own++]);
    } else {
      const auto* numbers = reinterpret_cast<const float*>(host_.given[given++].data());
      all.emplace_back(type, [numbers](int64_t i) { return numbers[i]; });
    }
  }
  return all;
}

std::string LuaStep::error(const std::string& code) {
  try {
    run(code);
  } catch (const Error& error) {
    const std::string line = error.where().to_string() + ": ";  // already part of the message if Lua raised the error
    return error.message().starts_with(line) ? error.message() : line + error.message();
  }
  return "no error";
}

std::string LuaStep::text(const std::string& code) {
  run(code);
  std::string text = luaL_tolstring(runtime_.state(), -1, nullptr);
  lua_settop(runtime_.state(), 0);
  return text;
}

}  // namespace runner::lua
