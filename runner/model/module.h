// Modules: parts of a model that declare parameters and record their forward computation.
//
// A module tree is built once and declares its parameters under PyTorch's names. Each forward() then records the same
// ops into the Program of the ForwardContext, with its mode and precision. Modules are immutable after declare(). A
// module used at several places of a model shares its parameters there, under the name of the first place.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "backends/ir/traced_scalar.h"
#include "runner/model/parameter_set.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

using backends::Value;

// Autocast with PyTorch's op lists for the CPU (AutocastRule): matrix products run in `dtype`; softmax, losses and
// norms in f32; other ops in the type of their operands. `dtype` f32 means no autocast.
// docs/decisions/035-autocast-by-region.md describes where autocast is enabled.
struct Autocast {
  backends::DType dtype = backends::DType::kF32;

  // Casts an operand of `op` to the type in which the op runs.
  Value operand(backends::Op op, Value x) const {
    switch (backends::def_of(op).autocast) {
      case backends::AutocastRule::kLowerPrecision: return backends::ops::cast(x, dtype);
      case backends::AutocastRule::kFloat32: return raise(x);
      case backends::AutocastRule::kAsGiven: return x;
    }
    return x;
  }
  // Casts an operand of a loss that runs in f32 and is made of several ops.
  static Value raise(Value x) { return backends::ops::cast(x, backends::DType::kF32); }
  // Converts f16 and bf16 outputs of a model to f32.
  static Value raise_half(Value x) {
    const bool half = x.dtype() == backends::DType::kF16 || x.dtype() == backends::DType::kBf16;
    return half ? raise(x) : x;
  }
};

inline constexpr ParameterId kNoParameter = -1;  // id in a module that has not been declared
inline constexpr BufferId kNoBuffer = -1;

// Values that the host passes to a Program at each execution, in the order of the Program's inputs and of tracing.
struct HostValues {
  std::vector<double> scalars = {};                 // of the kScalar inputs
  std::vector<std::vector<std::byte>> given = {};   // of the kBatch inputs after those of the batch itself
  std::vector<backends::TracedScalar> traced = {};  // scalars as the device model traces them (SubmissionInfo::traced)
  bool bakes = true;                                // record 0, 1 and −1 as constants
  bool fixed = false;                               // record all numbers as constants with their present values

  // Clears the values before a new recording.
  void clear() {
    scalars.clear();
    given.clear();
    traced.clear();
  }
};

// An input of a model, under the name that the data set gives it.
struct ModelInput {
  std::string_view name;
  Value value;  // (B, …) f32, or i64 ids
};

// Numbers of samples of a training batch that are not padding: on this rank, and on all ranks of the step.
struct CountedSamples {
  int64_t own = 0, all = 0;
  bool operator==(const CountedSamples&) const = default;
};

class KeyCache;  // key_cache.h

// Context of recording a model once.
struct ForwardContext {
  backends::Program& program;
  std::span<const Value> parameters = {};   // f32, indexed by ParameterId
  std::span<Value> buffers = {};            // current values, indexed by BufferId; update_buffer() replaces them
  std::span<const ModelInput> inputs = {};  // of the batch; empty if there is none
  Autocast mixed = {};                      // mixed precision of the recipe
  Autocast autocast = {};                   // currently active: `mixed` or none
  bool training = false;
  Value dropout_key = {};  // (2) i64 {seed, epoch}; only if `training`
  Value sample_ids = {};   // (B) i64
  Value draw_key = {};     // (2) i64, for random tensors
  Value mask = {};         // (B) f32, 0 for a padding sample; only if a batch of this step has padding, on any rank
  // Samples that count in batch statistics. Only in training, if some samples of the step are padding on any rank.
  std::optional<CountedSamples> counted = {};
  Value counted_mask = {};     // (B) f32, 0 for a padding sample; if `counted` is set
  int64_t ranks = 1;           // ranks whose batches are one optimizer step
  int64_t dropout_layers = 0;  // number of dropout layers recorded so far; numbers the next one
  int64_t random_tensors = 0;  // number of random tensors recorded so far
  // Null if the recording has no host values; numbers are then constants.
  HostValues* host = nullptr;
  bool remat = false;         // the backward pass computes blocks again (forward_block())
  KeyCache* cache = nullptr;  // if only a part of a text is computed; null: whole texts

  // Returns an input of the batch in addition to the argument of Module::forward(), such as an attention mask. Throws
  // Error(kRun) if the batch has no such input.
  Value input(std::string_view name) const;
  // The same, or no value if the batch has no such input.
  Value find_input(std::string_view name) const;

  // Throws Error(kRun) if the recording does not have this parameter.
  Value parameter(ParameterId id) const {
    RUN_CHECK(
        static_cast<size_t>(id) < parameters.size(), ErrorKind::kRun,
        "the module is not part of the model, so its parameters are not trained; return it from the hook entry model");
    return parameters[static_cast<size_t>(id)];
  }
  // Throws Error(kRun) if the recording does not have this buffer.
  Value buffer(BufferId id) const {
    RUN_CHECK(static_cast<size_t>(id) < buffers.size(), ErrorKind::kRun,
              "the module is not part of the model, so its running statistics are not kept; return it from the hook "
              "entry model");
    return buffers[static_cast<size_t>(id)];
  }
  // Sets the value that the buffer has after this forward pass, once the whole Program has run. Only in training.
  // `value`: of the buffer's type.
  void update_buffer(BufferId id, Value value) {
    RUN_ASSERT(training && value.type() == buffer(id).type());
    buffers[static_cast<size_t>(id)] = value;
  }
};

class Module;
using ModulePtr = std::shared_ptr<Module>;

class Module {
 public:
  virtual ~Module() = default;
  // Adds the module's parameters under `prefix` ("", "0.", "blocks.3."), once per set.
  void declare(ParameterSet& parameters, const std::string& prefix);
  // Records the module's computation and returns its output. An error names the module by its parameter path: "in
  // encoder.2 (nn.Linear) of the model: …". If no hook line is active, the error is located at made_at().
  Value forward(ForwardContext& context, Value x) const;
  // Hook line that created the module; unknown if none did.
  const SourceMark& made_at() const { return made_at_; }
  void set_made_at(SourceMark line) { made_at_ = std::move(line); }
  // Constructor call as in a hook, without inner modules: "nn.Linear(2, 3)", "nn.Sequential".
  virtual std::string text() const { return std::string(type()); }
  // Range [first, end) of the parameters that declare() has added, including those of inner modules.
  std::pair<ParameterId, ParameterId> declared() const { return {first_, end_}; }
  // Own parameters by name, such as "weight" and "bias". Call it after declare().
  virtual std::vector<std::pair<std::string, ParameterId>> own_parameters() const { return {}; }
  // Own buffers by name, such as "running_mean". Call it after declare().
  virtual std::vector<std::pair<std::string, BufferId>> own_buffers() const { return {}; }
  // Members of nn.Sequential in order; empty for other modules.
  virtual std::span<const ModulePtr> members() const { return {}; }

 protected:
  // Call it for each inner module. Throws Error(kRun) if modules are nested too deeply for recursive functions.
  void contain(const Module& member);
  static void check_depth(int64_t depth);
  // Returns the error with the name and the place of the module, as forward() throws it.
  Error with_place(const ForwardContext& context, const Error& error) const;

 private:
  virtual Value record(ForwardContext& context, Value x) const = 0;
  virtual void add_parameters(ParameterSet& /*parameters*/, const std::string& /*prefix*/) {}
  // Type name for errors, such as "nn.Linear"; empty if errors should name the inner modules only.
  virtual std::string_view type() const { return {}; }
  std::string place() const;

  const ParameterSet* declared_in_ = nullptr;
  ParameterId first_ = 0, end_ = 0;
  int64_t depth_ = 0;  // nesting depth of inner modules
  std::string path_;   // "encoder.2"; empty for the whole model
  SourceMark made_at_;
};

// As block.forward(). With context.remat, the backward pass computes the block again instead of keeping its values.
Value forward_block(ForwardContext& context, const Module& block, Value x);

// PyTorch's defaults.
inline constexpr double kNormEpsilon = 1e-5;
inline constexpr double kRmsNormEpsilon = std::numeric_limits<float>::epsilon();

// What nn.Dropout does: in training, zeroes elements with probability p and scales the others by 1/(1−p).
Value apply_dropout(ForwardContext& context, Value x, double p);

// A module with named inner modules, whose parameters have the prefix "NAME.".
class Group : public Module {
 protected:
  // Call it in the constructor, in the order of the parameters. Returns `module`.
  template <class Type>
  std::shared_ptr<Type> member(std::string name, std::shared_ptr<Type> module) {
    add_member(std::move(name), module);
    return module;
  }
  void add_parameters(ParameterSet& parameters, const std::string& prefix) override;

 private:
  void add_member(std::string name, ModulePtr module);

  std::vector<std::pair<std::string, ModulePtr>> members_;
};

// x: (…, in) -> (…, out). weight (out, in) and bias (out): U(±1/√in), as torch.nn.Linear.
ModulePtr linear(int64_t in, int64_t out, bool bias = true);
// The same with these initial values; no bias without one.
ModulePtr linear(int64_t in, int64_t out, const Initialiser& weight, const std::optional<Initialiser>& bias);
// The same with a weight from N(0, deviation²) and a bias of zeros.
ModulePtr normal_linear(int64_t in, int64_t out, bool bias, double deviation);
// ids: (…) i64 -> (…, width). weight (rows, width): N(0, deviation²), as torch.nn.Embedding. `padding_row`: starts as
// zeros.
ModulePtr embedding(int64_t rows, int64_t width, double deviation = 1, std::optional<int64_t> padding_row = {});
// x: (…, width) -> (…, rows): the output layer of a model whose weight is that of `table`, an embedding(); no bias.
Value tied_output(ForwardContext& context, const Module& table, Value x);
// Normalises over the last axis; weight is initialised with ones, bias with zeros.
ModulePtr layer_norm(int64_t width, double eps = kNormEpsilon, bool bias = true);
// x / √(mean of x² + eps) over the last axis, times a weight that is initialised with ones, as torch.nn.RMSNorm.
ModulePtr rms_norm(int64_t width, double eps);
// In training, zeroes elements with probability p and scales the others by 1/(1−p).
ModulePtr dropout(double p);
ModulePtr activation(schema::Activation kind);
// (B, …) -> (B, elements).
ModulePtr flatten();
// Flattens samples before `inner`, without a level of its own in parameter names.
ModulePtr over_flat_samples(ModulePtr inner);
// Parameters of the members are prefixed with "0.", "1.", ….
ModulePtr sequential(std::vector<ModulePtr> members);

}  // namespace runner::nn
