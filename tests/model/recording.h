// Runs a module on a device: declares its parameters, records forward pass and gradients, and executes them once.
#pragma once

#include <optional>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/ir/ops.h"
#include "runner/model/module.h"

namespace runner::nn {

class Recording {
 public:
  // Declares the parameters of `module`, which must outlive this object.
  explicit Recording(Module& module, Autocast autocast = {}, const std::optional<schema::Lora>& lora = {});

  const ParameterSet& parameters() const { return parameters_; }

  // Set the values of the next parameter, and create an input with values. Every parameter must be set once, in order,
  // before forward().
  void set_parameter(const std::vector<double>& values);
  Value input(const backends::TensorType& type, const std::vector<double>& values);
  // Padding of the next forward passes, in training: 0 in `mask` for each padding sample.
  void set_padding(const std::vector<double>& mask);

  // Gradients compute the blocks of the next forward passes again (forward_block()).
  void recompute_blocks() { remat_ = true; }

  // Records the module. `sample_ids`: for dropout, whose key is {seed 7, epoch 0}.
  // `inputs`: in addition to x.
  Value forward(Value x, bool training = false, const std::vector<double>& sample_ids = {},
                std::span<const ModelInput> inputs = {});
  // Records the gradients of Σ root · seed with respect to each parameter, or to each of `wrt`.
  std::vector<Value> gradients(Value root, Value seed) { return gradients(root, seed, parameter_values_); }
  std::vector<Value> gradients(Value root, Value seed, const std::vector<Value>& wrt);
  const std::vector<Value>& parameter_values() const { return parameter_values_; }
  // The buffers after the forward passes so far.
  const std::vector<Value>& buffers() const { return buffer_values_; }

  // Runs the Program and returns the elements of `values`.
  std::vector<std::vector<double>> run(const std::vector<Value>& values);

 private:
  Module& module_;
  const Autocast autocast_;
  ParameterSet parameters_;
  backends::Program program_;
  std::vector<Value> parameter_values_, buffer_values_;
  std::optional<CountedSamples> counted_;
  Value counted_mask_;
  bool remat_ = false;
  std::vector<std::vector<std::byte>> inputs_;
};

// Returns 0, 1, 2, …, each divided by `divisor`.
std::vector<double> counting(int64_t elements, double divisor = 1);

}  // namespace runner::nn
