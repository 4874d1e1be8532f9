// A step that is recorded by Lua code alone: code in, values of the tensors that it returns out.
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

  // A batch input, a variable of that name in the code.
  Value input(const std::string& name, HostTensor tensor);
  // Parameters for declared modules, all ones.
  void declare(nn::Module& module);

  // The tensor that the expression `code` gives; `nn` is there.  Throws Error, "step:1" being its line.
  Value record(const std::string& code);
  // What the program recorded so far computes.
  HostTensor compute(Value value);
  HostTensor compute(const std::string& code) { return compute(record(code)); }
  // The text of the error that `code` ends with, "no error" else.
  std::string error(const std::string& code);
  // The text of what is no tensor, as tostring() gives it.
  std::string text(const std::string& code);

  // Leaves the value of `code` on the stack.
  void run(const std::string& code);

  backends::Program& program() { return program_; }
  nn::HostValues& host() { return host_; }
  // From now on nobody hands numbers over.
  void bake_numbers() { forward_.host = nullptr; }
  Runtime& runtime() { return runtime_; }

 private:
  backends::Program program_;
  std::vector<Value> parameters_;
  nn::ParameterSet declared_;
  nn::Forward forward_;
  Recording recording_;
  Runtime runtime_;
  std::vector<HostTensor> all_inputs() const;

  std::map<std::string, Value> names_;
  std::vector<HostTensor> inputs_;  // of input()
  nn::HostValues host_;
};

}  // namespace runner::lua
