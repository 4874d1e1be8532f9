// Modules: parts of a model that declare parameters and record their forward computation.
//
// A module tree is built once, declares its parameters under PyTorch's names, and then records the same ops each time
// it is asked to, with whatever Program, mode and precision the Forward says.  Modules are immutable after declare();
// one that stands at several places of a model shares its parameters there, under the name of the first.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/ir/ops.h"
#include "backends/ir/traced_scalar.h"
#include "runner/nn/parameter_set.h"
#include "schema/error.h"
#include "schema/recipe.h"

namespace runner::nn {

using backends::Value;

// Precision policy by PyTorch's autocast lists for the CPU: products run in `dtype`; softmax, losses and norms in f32;
// other ops in the type they are given.  `dtype` f32: no autocast.  docs/decisions/035-autocast-by-region.md says where
// which is in force.
struct Autocast {
  backends::DType dtype = backends::DType::kF32;

  Value lower(Value x) const { return backends::ops::cast(x, dtype); }                   // operands of products
  static Value raise(Value x) { return backends::ops::cast(x, backends::DType::kF32); }  // operands of f32 ops
  // Outputs of a model: what is half as wide.
  static Value raise_half(Value x) {
    const bool half = x.dtype() == backends::DType::kF16 || x.dtype() == backends::DType::kBf16;
    return half ? raise(x) : x;
  }
};

inline constexpr ParameterId kNoParameter = -1;  // of a module that was not declared

// What the code that records hands over at each execution: in the order of the inputs of the Program, and of tracing.
struct HostValues {
  std::vector<double> scalars = {};                 // of its kScalar inputs
  std::vector<std::vector<std::byte>> given = {};   // of the kBatch inputs behind those of the batch
  std::vector<backends::TracedScalar> traced = {};  // numbers as the device is told of them (Arguments::traced)
  bool bakes = true;                                // 0, 1 and −1 are constants
  bool fixed = false;  // all numbers are: what is recorded keeps the values that it has now

  // Of a recording that begins anew.
  void clear() {
    scalars.clear();
    given.clear();
    traced.clear();
  }
};

// One recording of a model.
struct Forward {
  backends::Program& program;
  std::span<const Value> parameters = {};  // by ParameterId, in f32
  Autocast mixed = {};                     // the recipe's mixed precision
  Autocast autocast = {};                  // in force: that, or none
  bool training = false;
  Value dropout_key = {};      // (2) i64 {seed, epoch}; with training only
  Value sample_ids = {};       // (B) i64
  Value draw_key = {};         // (2) i64, of random tensors
  int64_t dropout_layers = 0;  // recorded so far: numbers the layers
  int64_t random_tensors = 0;  // likewise
  // Null: what is recorded has no values of its own, and numbers are constants.
  HostValues* host = nullptr;

  // Throws Error(kRun) for a parameter that this recording does not have.
  Value parameter(ParameterId id) const {
    RUN_CHECK(static_cast<size_t>(id) < parameters.size(), ErrorKind::kRun,
              "the module is not part of the model, whose parameters alone are trained; return it from the hook model");
    return parameters[static_cast<size_t>(id)];
  }
};

class Module;
using ModulePtr = std::shared_ptr<Module>;

class Module {
 public:
  virtual ~Module() = default;
  // Adds the module's parameters under `prefix` ("", "0.", "blocks.3."), once to each set.
  void declare(ParameterSet& parameters, const std::string& prefix);
  // Records the module's computation.  An error says where in the model it arose, by the path of parameters' names:
  // "in encoder.2 (nn.Linear) of the model: …"; where no line of a hook is in force, its line is made_at().
  Value forward(Forward& context, Value x) const;
  // The line of a hook that made it; unknown where none did.
  const SourceMark& made_at() const { return made_at_; }
  void set_made_at(SourceMark line) { made_at_ = std::move(line); }
  // As a hook writes the call that makes it, without the modules inside: "nn.Linear(2, 3)", "nn.Sequential".
  virtual std::string text() const { return std::string(type()); }
  // The parameters that declare() has added, those of its modules included: [first, end).
  std::pair<ParameterId, ParameterId> declared() const { return {first_, end_}; }
  // The module's own parameters by name, declared already: "weight", "bias".
  virtual std::vector<std::pair<std::string, ParameterId>> own_parameters() const { return {}; }
  // Those of nn.Sequential, in their order; others have none.
  virtual std::span<const ModulePtr> members() const { return {}; }

 protected:
  // To be called for each module inside this one.  Throws Error(kRun) where they lie too deep in each other: what works
  // on modules goes down by calling itself.
  void contain(const Module& member);
  static void check_depth(int64_t depth);

 private:
  virtual Value record(Forward& context, Value x) const = 0;
  virtual void add_parameters(ParameterSet& /*parameters*/, const std::string& /*prefix*/) {}
  // "nn.Linear", for errors; empty: the members say where.
  virtual std::string_view type() const { return {}; }
  std::string place() const;

  const ParameterSet* declared_in_ = nullptr;
  ParameterId first_ = 0, end_ = 0;
  int64_t depth_ = 0;  // of modules inside this one
  std::string path_;   // "encoder.2", empty for the whole model
  SourceMark made_at_;
};

// x: (…, in) -> (…, out).  weight (out, in) and bias (out): U(±1/√in), as torch.nn.Linear.
ModulePtr linear(int64_t in, int64_t out, bool bias = true);
// ids: (…) i64 -> (…, width).  weight (rows, width): N(0, 1).
ModulePtr embedding(int64_t rows, int64_t width);
// Over the last axis; weight ones, bias zeros; eps 1e-5.
ModulePtr layer_norm(int64_t width, double eps = 1e-5);
// Zeroes with probability p and scales by 1/(1−p), in training.
ModulePtr dropout(double p);
ModulePtr activation(schema::Activation kind);
// (B, …) -> (B, elements).
ModulePtr flatten();
// Members are named "0.", "1.", ….
ModulePtr sequential(std::vector<ModulePtr> members);

}  // namespace runner::nn
