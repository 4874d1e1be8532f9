// Traces a step given as Lua code, and computes the values of the tensors that the code returns.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "tests/backends/support/host_tensor.h"

namespace runner::lua {

using backends::testing::HostTensor;

class LuaStep {
 public:
  explicit LuaStep(nn::Autocast autocast = {});
  ~LuaStep();

  // Adds a batch input, available to the code as a variable of that name.
  Value input(const std::string& name, HostTensor tensor);
  // Adds the parameters of declared modules, all ones.
  void declare(nn::Module& module);

  // Evaluates the expression `code`, in which `nn` is available, and returns its tensor. Throws Error with the line
  // "step:1".
  Value record(const std::string& code);
  // Computes a value of the program traced so far.
  HostTensor compute(Value value);
  HostTensor compute(const std::string& code) { return compute(record(code)); }
  // Returns the message of the error that `code` raises, or "no error".
  std::string error(const std::string& code);
  // Returns the value of `code`, which is not a tensor, as text, like tostring().
  std::string text(const std::string& code);

  // Pushes the value of `code`.
  void run(const std::string& code);

  backends::Program& program() { return program_; }
  nn::HostValues& host() { return host_; }
  // Makes numbers constants from now on, as if no values were passed at execution.
  void bake_numbers() { forward_.host = nullptr; }
  Runtime& runtime() { return runtime_; }

 private:
  backends::Program program_;
  std::vector<Value> parameters_;
  nn::ParameterSet declared_;
  nn::ForwardContext forward_;
  Recording recording_;
  Runtime runtime_;
  std::vector<HostTensor> all_inputs() const;

  std::map<std::string, Value> names_;
  std::vector<HostTensor> inputs_;  // values of input()
  nn::HostValues host_;
};

}  // namespace runner::lua
