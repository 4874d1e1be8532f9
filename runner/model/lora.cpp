#include "runner/model/lora.h"

#include <algorithm>
#include <cmath>

#include "backends/ir/ops.h"
#include "runner/model/module.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::nn {

namespace ops = backends::ops;
using backends::Shape;

bool is_of_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}

namespace {

bool selects_any(std::span<const std::string> patterns, std::string_view path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return selects_module(pattern, path); });
}

// Whether the parameter is A of a layer that the patterns select.
bool is_adapted_by(std::span<const std::string> patterns, std::string_view parameter) {
  if (!parameter.ends_with(kLoraA)) return false;
  return selects_any(patterns, parameter.substr(0, parameter.size() - kLoraA.size() - 1));
}

void check_used(const ParameterSet& parameters, std::string_view key, std::string_view what,
                std::span<const std::string> patterns,
                bool (*selects)(std::span<const std::string>, std::string_view)) {
  for (const std::string& pattern : patterns)
    RUN_CHECK(std::ranges::any_of(parameters.parameters(),
                                  [&](const Parameter& p) { return selects(std::span(&pattern, 1), p.name); }),
              ErrorKind::kRecipe,
              "model.lora.{}: {} is no {}; expected the name of a parameter without .weight or .bias, or the end of "
              "such a name; `runner parameters RECIPE` lists the names if you remove model.lora",
              key, in_quotes(pattern), what);
}

}  // namespace

bool selects_module(std::string_view pattern, std::string_view path) {
  return matches(pattern, path) || matches("*." + std::string(pattern), path);
}

std::string module_of(std::span<const std::string> patterns, std::string_view parameter) {
  for (size_t dot = parameter.find('.'); dot != std::string_view::npos; dot = parameter.find('.', dot + 1)) {
    const std::string_view path = parameter.substr(0, dot);
    if (selects_any(patterns, path)) return std::string(path);
  }
  return "";
}

LoraAdapter::LoraAdapter(ParameterSet& parameters, const std::string& prefix, const schema::Lora& spec, int64_t in,
                         int64_t out)
    : a_(parameters.add(prefix + std::string(kLoraA), Shape{spec.rank, in},
                        {Initialiser::Kind::kUniform, 1 / std::sqrt(static_cast<double>(in))})),
      b_(parameters.add(prefix + std::string(kLoraB), Shape{out, spec.rank}, {})),
      scale_(scale_of(spec)),
      dropout_(spec.dropout) {}

Value LoraAdapter::add_to(ForwardContext& context, Value x, Value y) const {
  const auto operand = [&](Value value) { return context.autocast.operand(backends::Op::kMatmul, value); };
  const Value low =
      ops::matmul(operand(apply_dropout(context, x, dropout_)), operand(context.parameter(a_)), false, true);
  return ops::add(y, ops::mul(ops::matmul(low, operand(context.parameter(b_)), false, true), scale_));
}

std::optional<LoraAdapter> declare_adapter(ParameterSet& parameters, const std::string& prefix, int64_t in,
                                           int64_t out) {
  const schema::Lora* const spec = parameters.lora();
  if (spec == nullptr || is_in_module(spec->modules_to_save, prefix)) return std::nullopt;
  const std::string_view path = std::string_view(prefix).substr(0, prefix.size() - 1);
  if (!selects_any(spec->targets, path)) return std::nullopt;
  return LoraAdapter(parameters, prefix, *spec, in, out);
}

void freeze_base(ParameterSet& parameters) {
  const schema::Lora& spec = *parameters.lora();
  const char* const layer =
      spec.modules_to_save.empty() ? "linear layer of the model" : "linear layer outside modules_to_save";
  check_used(parameters, "targets", layer, spec.targets, is_adapted_by);
  check_used(parameters, "modules_to_save", "module of the model", spec.modules_to_save, is_in_module);
  for (ParameterId id = 0; id < std::ssize(parameters.parameters()); ++id) {
    const std::string& name = parameters[id].name;
    if (!is_of_adapter(name) && !is_in_module(spec.modules_to_save, name)) parameters.fix(id);
  }
}

void merge_adapter(std::span<float> weight, std::span<const float> a, std::span<const float> b, double scale,
                   int64_t rank) {
  const auto inner = static_cast<size_t>(rank), in = a.size() / inner;
  for (size_t i = 0; i < weight.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < inner; ++k) sum += double{b[i / in * inner + k]} * double{a[k * in + i % in]};
    weight[i] = static_cast<float>(double{weight[i]} + scale * sum);
  }
}

}  // namespace runner::nn
