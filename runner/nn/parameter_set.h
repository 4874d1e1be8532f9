// The parameters of a model and how they lie in memory: names, shapes, initialisers, one flat buffer per group.
//
// Invariants: 1. parameters keep the order in which modules declare them; 2. every parameter is a range of exactly one
// flat buffer; trainable ones are grouped by optimizer group, frozen ones lie in a buffer of their own; 3. ranges of a
// buffer follow each other without gaps, so clip, all-reduce and optimizer are each one loop over one array.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/tensor/shape.h"

namespace runner::nn {

// Distribution of a parameter before training; bounds and moments as PyTorch's modules.
struct Initialiser {
  enum class Kind { kZeros, kOnes, kUniform, kNormal } kind = Kind::kZeros;
  double scale = 0;  // uniform: in [−scale, scale); normal: the standard deviation
};

struct Parameter {
  std::string name;  // as in a PyTorch state dict: "0.weight"
  backends::Shape shape;
  Initialiser init;
  int32_t buffer = 0;  // index into ParameterSet::buffers
  int64_t offset = 0;  // in elements
  bool trainable = true;

  int64_t elements() const { return shape.elements(); }
};

struct FlatBuffer {
  int64_t elements = 0;
  int32_t group = 0;  // of the optimizer; −1: frozen
};

using ParameterId = int32_t;

class ParameterSet {
 public:
  // Declares a parameter.  Names must be unique.
  ParameterId add(std::string name, const backends::Shape& shape, Initialiser init);

  // Freezes the parameters that a pattern of `freeze` matches and lays all others out by group: a parameter belongs to
  // the first entry of `groups` with a matching pattern, else to the last group, number groups.size().  Throws
  // Error(kRecipe) naming a pattern that matches nothing or a group that others before it leave nothing, or when
  // nothing is left to train.
  void lay_out(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups);

  std::span<const Parameter> parameters() const { return parameters_; }
  const Parameter& operator[](ParameterId id) const { return parameters_[static_cast<size_t>(id)]; }
  std::span<const FlatBuffer> buffers() const { return buffers_; }
  int64_t elements() const;
  int64_t trainable_elements() const;

  // The parameters of a buffer, by offset.
  std::vector<ParameterId> in_buffer(int32_t buffer) const;

 private:
  void check_none_idle(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups) const;

  std::vector<Parameter> parameters_;
  std::vector<FlatBuffer> buffers_;
};

// Writes the initial values of `parameter`, of its elements from number `begin` on: a pure function of (seed, its name,
// the element), whatever else the model holds.
void initialise(const Parameter& parameter, uint64_t seed, std::span<float> values, int64_t begin = 0);

// Shell-style match of a whole name: * any run of characters, ? one.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace runner::nn
