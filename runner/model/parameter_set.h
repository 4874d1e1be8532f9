// Parameters of a model and their memory layout: names, shapes, initialisers, one flat buffer per optimizer group.
//
// Invariants: 1. Parameters are in the order in which modules declare them. 2. Every parameter is a range of exactly
// one flat buffer: trainable parameters of their group's buffer, frozen ones of a separate buffer. 3. The ranges of a
// buffer are contiguous, so clipping, all-reduce and optimizer each process one array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/tensor/shape.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

// Initial distribution of a parameter; bounds and moments as in PyTorch's modules.
struct Initialiser {
  enum class Kind { kZeros, kOnes, kUniform, kNormal } kind = Kind::kZeros;
  double scale = 0;                            // uniform: range [−scale, scale); normal: standard deviation
  std::pair<int64_t, int64_t> zeros = {0, 0};  // range [first, end) of elements that are 0 instead
};

// What a parameter is for: the words `norms` and `biases` of patterns. The bias of a norm is both.
enum class ParameterRole { kWeight, kBias, kNormWeight, kNormBias };

struct Parameter {
  std::string name;  // as in a PyTorch state dict, such as "0.weight"
  backends::Shape shape;
  Initialiser init;
  ParameterRole role = ParameterRole::kWeight;
  int32_t buffer = 0;  // index into ParameterSet::buffers()
  int64_t offset = 0;  // in elements
  bool trainable = true;
  bool fixed = false;  // never trained, whatever the patterns of lay_out()

  int64_t elements() const { return shape.elements(); }
};

struct FlatBuffer {
  int64_t elements = 0;
  int32_t group = 0;  // optimizer group; −1: frozen
};

using ParameterId = int32_t;

// A value of the model that no optimizer updates, but that a forward pass in training may replace, such as the running
// mean of a batch norm: a buffer of a PyTorch state dict. It is no parameter: it has no gradient, no flat buffer and no
// optimizer group, and patterns do not select it.
struct ModelBuffer {
  std::string name;           // as in a PyTorch state dict, such as "1.running_mean"
  backends::TensorType type;  // f32, or i64 for a count
  double initial = 0;
  bool moves = true;  // whether a forward pass may replace it; false for a frozen norm
  double least = -std::numeric_limits<double>::infinity();  // of its elements, which are finite
  // Not in the state dict: a count of this engine, which only checkpoints of runs contain.
  bool is_internal = false;

  bool is_count() const { return type.dtype == backends::DType::kI64; }
  // The first element of `contents`, of the buffer's type, that is not finite or below `least`: "element 3 is nan,
  // expected finite numbers of at least 0". Empty if there is none.
  std::string fault_in(std::span<const std::byte> contents) const;
};

using BufferId = int32_t;

// Whether a pattern selects a parameter: a name with * and ?, or one of the words `norms` and `biases`.
bool selects(std::string_view pattern, const Parameter& parameter);

class ParameterSet {
 public:
  // Declares a parameter. Throws Error(kRun) if the name is already in use.
  ParameterId add(std::string name, const backends::Shape& shape, Initialiser init,
                  ParameterRole role = ParameterRole::kWeight);

  // Declares a buffer. Throws Error(kRun) if the name is already in use.
  BufferId add_buffer(ModelBuffer buffer);

  // Declares that the forward pass in training has collectives: batch statistics of all ranks.
  void exchange_in_forward() { exchanges_in_forward_ = true; }
  bool exchanges_in_forward() const { return exchanges_in_forward_; }

  // Gives linear layers that are declared from now on adapters where `lora` selects them (lora.h).
  void adapt(schema::Lora lora) { lora_ = std::move(lora); }
  const schema::Lora* lora() const { return lora_ ? &*lora_ : nullptr; }
  // Freezes a parameter for good.
  void fix(ParameterId id) { parameters_[static_cast<size_t>(id)].fixed = true; }

  // Freezes the parameters that a pattern of `freeze` selects and arranges the others by group. A parameter belongs to
  // the first entry of `groups` with a pattern that selects it, or to the default group, whose index is groups.size().
  // Within a group, parameters listed by name come first, in that order; the others follow as they were declared.
  // Throws Error(kRecipe) with all patterns that select no parameter, if earlier groups leave no parameter to a group,
  // or if no parameter is trainable.
  void lay_out(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups);

  std::span<const Parameter> parameters() const { return parameters_; }
  const Parameter& operator[](ParameterId id) const { return parameters_[static_cast<size_t>(id)]; }
  // Null if there is no parameter of this name.
  const Parameter* find(std::string_view name) const;
  const ModelBuffer* find_buffer(std::string_view name) const;
  // Buffers in the order in which modules declare them.
  std::span<const ModelBuffer> model_buffers() const { return model_buffers_; }
  // Whether forward passes in training move any of them.
  bool moves_buffers() const;
  const ModelBuffer& model_buffer(BufferId id) const { return model_buffers_[static_cast<size_t>(id)]; }
  std::span<const FlatBuffer> buffers() const { return buffers_; }
  int64_t elements() const;
  int64_t trainable_elements() const;
  // Without internal buffers.
  int64_t buffer_elements() const;

  // Returns the parameters of a buffer in order of their offsets.
  std::span<const ParameterId> in_buffer(int32_t buffer) const { return in_buffers_[static_cast<size_t>(buffer)]; }

 private:
  void check_new(std::string_view name) const;
  std::vector<ParameterId> in_order_of(std::span<const std::string> names) const;
  std::vector<ParameterId> find_in_buffer(int32_t buffer) const;
  void check_used(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups) const;
  void check_none_idle(std::span<const std::string> freeze, std::span<const std::vector<std::string>> groups) const;

  std::optional<schema::Lora> lora_;
  std::vector<Parameter> parameters_;
  std::vector<ModelBuffer> model_buffers_;
  bool exchanges_in_forward_ = false;
  std::vector<FlatBuffer> buffers_;
  std::vector<std::vector<ParameterId>> in_buffers_;  // in_buffer() by buffer
};

// Writes the initial values of the elements of `parameter` from `begin` on. They depend only on the seed, the
// parameter's name and the element index, not on other parameters.
void initialise(const Parameter& parameter, uint64_t seed, std::span<float> values, int64_t begin = 0);

}  // namespace runner::nn
