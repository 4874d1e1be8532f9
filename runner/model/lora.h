// Low-rank adaptation of linear layers (LoRA, Hu et al. 2021), with the names, initial values and computation of PEFT:
// y = W x + b + alpha / rank · B (A dropout(x)), where A and B are trained and W and b are frozen.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/ir/program.h"
#include "runner/model/parameter_set.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

struct ForwardContext;  // module.h

inline constexpr std::string_view kLoraA = "lora_A.weight", kLoraB = "lora_B.weight";

// Whether the name is that of A or B of a linear layer.
bool is_of_adapter(std::string_view parameter);

// Whether a pattern selects a module by its path, such as bert.pooler, or by the end of it, such as pooler.
bool selects_module(std::string_view pattern, std::string_view path);

// Returns the path of the outermost module that contains the parameter and that a pattern selects; empty: none.
std::string module_of(std::span<const std::string> patterns, std::string_view parameter);
inline bool is_in_module(std::span<const std::string> patterns, std::string_view parameter) {
  return !module_of(patterns, parameter).empty();
}

inline double scale_of(const schema::Lora& spec) {
  return spec.alpha / static_cast<double>(spec.rank);
}

// The adapter of one linear layer.
class LoraAdapter {
 public:
  // Declares A (rank, in) and B (out, rank) under the prefix of the layer: A from U(±1/√in), B from zeros.
  LoraAdapter(ParameterSet& parameters, const std::string& prefix, const schema::Lora& spec, int64_t in, int64_t out);

  // Adds scale · B (A dropout(x)) to y, the result of the layer. x: (…, in); y: (…, out).
  backends::Value add_to(ForwardContext& context, backends::Value x, backends::Value y) const;

 private:
  ParameterId a_, b_;
  double scale_, dropout_;
};

// Declares an adapter for the linear layer of this prefix if lora() of the set selects the layer.
std::optional<LoraAdapter> declare_adapter(ParameterSet& parameters, const std::string& prefix, int64_t in,
                                           int64_t out);

// Freezes all parameters except those of adapters and modules_to_save, after the model has been declared. Throws
// Error(kRecipe) if a pattern selects nothing.
void freeze_base(ParameterSet& parameters);

// Adds scale · B A to a weight, in f64. weight: (out, in); a: (rank, in); b: (out, rank), all row-major.
void merge_adapter(std::span<float> weight, std::span<const float> a, std::span<const float> b, double scale,
                   int64_t rank);

}  // namespace runner::nn
