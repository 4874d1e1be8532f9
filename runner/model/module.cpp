#include "runner/model/module.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/ir/type_text.h"
#include "runner/model/lora.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Shape;

std::vector<std::pair<std::string, ParameterId>> named_parameters(ParameterId weight, bool has_bias, ParameterId bias) {
  std::vector<std::pair<std::string, ParameterId>> named{{"weight", weight}};
  if (has_bias) named.emplace_back("bias", bias);
  return named;
}

class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias, const Initialiser& weight_init, const Initialiser& bias_init)
      : in_(in), out_(out), has_bias_(bias), weight_init_(weight_init), bias_init_(bias_init) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    weight_ = parameters.add(prefix + "weight", Shape{out_, in_}, weight_init_);
    if (has_bias_) bias_ = parameters.add(prefix + "bias", Shape{out_}, bias_init_, ParameterRole::kBias);
    adapter_ = declare_adapter(parameters, prefix, in_, out_);
  }

  Value record(ForwardContext& context, Value x) const override {
    const Autocast& autocast = context.autocast;
    const auto operand = [&](Value value) { return autocast.operand(backends::Op::kMatmul, value); };
    Value y = ops::matmul(operand(x), operand(context.parameter(weight_)), false, true);
    if (has_bias_) y = ops::add(y, operand(context.parameter(bias_)));
    return adapter_ ? adapter_->add_to(context, x, y) : y;
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    return named_parameters(weight_, has_bias_, bias_);
  }

  std::string_view type() const override { return "nn.Linear"; }
  std::string text() const override {
    return fmt::format("nn.Linear({}, {}{})", in_, out_, has_bias_ ? "" : ", {bias = false}");
  }

 private:
  const int64_t in_, out_;
  const bool has_bias_;
  const Initialiser weight_init_, bias_init_;
  std::optional<LoraAdapter> adapter_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width, double deviation, std::optional<int64_t> padding_row)
      : shape_{rows, width}, deviation_(deviation), padding_row_(padding_row) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    Initialiser init{.kind = Initialiser::Kind::kNormal, .scale = deviation_};
    if (padding_row_) init.zeros = {*padding_row_ * shape_[1], (*padding_row_ + 1) * shape_[1]};
    weight_ = parameters.add(prefix + "weight", shape_, init);
  }

  Value record(ForwardContext& context, Value ids) const override {
    return ops::embedding(context.parameter(weight_), ids);
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override { return {{"weight", weight_}}; }

  std::string_view type() const override { return "nn.Embedding"; }
  std::string text() const override { return fmt::format("nn.Embedding({}, {})", shape_[0], shape_[1]); }

 private:
  const Shape shape_;
  const double deviation_;
  const std::optional<int64_t> padding_row_;
  ParameterId weight_ = kNoParameter;
};

class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, double eps, bool bias) : width_(width), eps_(eps), has_bias_(bias) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    weight_ =
        parameters.add(prefix + "weight", Shape{width_}, {Initialiser::Kind::kOnes, 0}, ParameterRole::kNormWeight);
    if (!has_bias_) return;
    bias_ = parameters.add(prefix + "bias", Shape{width_}, {Initialiser::Kind::kZeros, 0}, ParameterRole::kNormBias);
  }

  Value record(ForwardContext& context, Value x) const override {
    const Value weight = context.parameter(weight_);
    const Value bias = has_bias_ ? context.parameter(bias_) : ops::full_like(weight, 0);
    return ops::layer_norm(context.autocast.operand(backends::Op::kLayerNorm, x), weight, bias, eps_);
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    return named_parameters(weight_, has_bias_, bias_);
  }

  std::string_view type() const override { return "nn.LayerNorm"; }
  std::string text() const override { return fmt::format("nn.LayerNorm({}, {})", width_, eps_); }

 private:
  const int64_t width_;
  const double eps_;
  const bool has_bias_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

class RmsNorm : public Module {
 public:
  RmsNorm(int64_t width, double eps) : width_(width), eps_(eps) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    weight_ =
        parameters.add(prefix + "weight", Shape{width_}, {Initialiser::Kind::kOnes, 0}, ParameterRole::kNormWeight);
  }

  Value record(ForwardContext& context, Value x) const override {
    return ops::rms_norm(context.autocast.operand(backends::Op::kRmsNorm, x), context.parameter(weight_), eps_);
  }

  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override { return {{"weight", weight_}}; }
  std::string_view type() const override { return "nn.RMSNorm"; }
  std::string text() const override { return fmt::format("nn.RMSNorm({}, {})", width_, eps_); }

 private:
  const int64_t width_;
  const double eps_;
  ParameterId weight_ = kNoParameter;
};

class Dropout : public Module {
 public:
  explicit Dropout(double p) : p_(p) {}

  Value record(ForwardContext& context, Value x) const override { return apply_dropout(context, x, p_); }

  std::string_view type() const override { return "nn.Dropout"; }
  std::string text() const override { return fmt::format("nn.Dropout({})", p_); }

 private:
  const double p_;
};

class ActivationModule : public Module {
 public:
  explicit ActivationModule(schema::Activation kind) : kind_(kind) {}

  Value record(ForwardContext&, Value x) const override {
    switch (kind_) {
      case schema::Activation::kRelu: return ops::relu(x);
      case schema::Activation::kGelu: return ops::gelu(x);
      case schema::Activation::kGeluTanh: return ops::gelu_tanh(x);
      case schema::Activation::kSilu: return ops::silu(x);
      case schema::Activation::kTanh: return ops::tanh(x);
      case schema::Activation::kSigmoid: return ops::sigmoid(x);
      case schema::Activation::kIdentity: return x;
    }
    return x;
  }

  std::string_view type() const override {
    switch (kind_) {
      case schema::Activation::kRelu: return "nn.ReLU";
      case schema::Activation::kGelu: return "nn.GELU";
      case schema::Activation::kGeluTanh: return "nn.GELUTanh";
      case schema::Activation::kSilu: return "nn.SiLU";
      case schema::Activation::kTanh: return "nn.Tanh";
      case schema::Activation::kSigmoid: return "nn.Sigmoid";
      case schema::Activation::kIdentity: return "nn.Identity";
    }
    return {};
  }
  std::string text() const override { return fmt::format("{}()", type()); }

 private:
  const schema::Activation kind_;
};

class Flatten : public Module {
 public:
  Value record(ForwardContext&, Value x) const override {
    RUN_CHECK(x.shape().rank() > 0, ErrorKind::kRun, "flatten: expected at least one axis, got {}", x.type());
    const int64_t rows = x.shape()[0];
    return ops::reshape(x, Shape{rows, rows == 0 ? 0 : x.shape().elements() / rows});
  }

  std::string_view type() const override { return "nn.Flatten"; }
  std::string text() const override { return "nn.Flatten()"; }
};

class Sequential : public Module {
 public:
  explicit Sequential(std::vector<ModulePtr> members) : members_(std::move(members)) {
    for (const ModulePtr& member : members_) contain(*member);
  }

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    for (size_t i = 0; i < members_.size(); ++i) members_[i]->declare(parameters, fmt::format("{}{}.", prefix, i));
  }

  Value record(ForwardContext& context, Value x) const override {
    for (const ModulePtr& member : members_) x = member->forward(context, x);
    return x;
  }

  std::span<const ModulePtr> members() const override { return members_; }
  std::string text() const override { return "nn.Sequential"; }

 private:
  std::vector<ModulePtr> members_;
};

// Flattens samples without a level of its own in parameter names.
class OverFlatSamples : public Module {
 public:
  explicit OverFlatSamples(ModulePtr inner) : inner_(std::move(inner)), flatten_(flatten()) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    inner_->declare(parameters, prefix);
  }
  Value record(ForwardContext& context, Value x) const override {
    return inner_->forward(context, flatten_->forward(context, x));
  }
  std::span<const ModulePtr> members() const override { return inner_->members(); }
  std::string text() const override { return inner_->text(); }

 private:
  ModulePtr inner_, flatten_;
};

}  // namespace

Value forward_block(ForwardContext& context, const Module& block, Value x) {
  const backends::ValueId first = context.program.size();
  const Value y = block.forward(context, x);
  if (context.remat) context.program.recompute_from(first);
  return y;
}

Value apply_dropout(ForwardContext& context, Value x, double p) {
  if (!context.training || p == 0) return x;
  const Value mask = ops::dropout_mask(context.dropout_key, context.sample_ids, x.shape(), context.dropout_layers++, p);
  return ops::mul(x, ops::cast(mask, x.dtype()));
}

void Group::add_member(std::string name, ModulePtr module) {
  contain(*module);
  members_.emplace_back(std::move(name), std::move(module));
}

void Group::add_parameters(ParameterSet& parameters, const std::string& prefix) {
  for (const auto& [name, module] : members_) module->declare(parameters, prefix + name + '.');
}

void Module::contain(const Module& member) {
  depth_ = std::max(depth_, member.depth_ + 1);
  check_depth(depth_);
}

void Module::check_depth(int64_t depth) {
  constexpr int64_t kMaxDepth = 200;
  RUN_CHECK(depth <= kMaxDepth, ErrorKind::kRun, "modules are nested more than {} deep", kMaxDepth);
}

Value ForwardContext::find_input(std::string_view name) const {
  const auto found = std::ranges::find(inputs, name, &ModelInput::name);
  return found == inputs.end() ? Value{} : found->value;
}

Value ForwardContext::input(std::string_view name) const {
  if (const Value found = find_input(name)) return found;
  std::vector<std::string_view> names;
  for (const ModelInput& input : inputs) names.push_back(input.name);
  fail(ErrorKind::kRun, "the model needs an input {}, but a batch has {}", name,
       names.empty() ? "no inputs" : fmt::format("{}", fmt::join(names, ", ")));
}

void Module::declare(ParameterSet& parameters, const std::string& prefix) {
  if (std::exchange(declared_in_, &parameters) == &parameters) return;
  path_ = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1);
  first_ = static_cast<ParameterId>(parameters.parameters().size());
  add_parameters(parameters, prefix);
  end_ = static_cast<ParameterId>(parameters.parameters().size());
}

Value Module::forward(ForwardContext& context, Value x) const {
  if (type().empty()) return record(context, x);
  try {
    return record(context, x);
  } catch (const Error& error) {
    throw with_place(context, error);
  }
}

// If a hook line is active, the caller that set the mark adds its location.
Error Module::with_place(const ForwardContext& context, const Error& error) const {
  Error placed(error.kind(), fmt::format("in {}: {}", place(), error.message()), error.where());
  if (!context.program.mark().known()) placed.locate(made_at_);
  return placed;
}

std::string Module::place() const {
  if (declared_in_ == nullptr) return std::string(type());
  return path_.empty() ? fmt::format("the model ({})", type()) : fmt::format("{} ({}) of the model", path_, type());
}

ModulePtr linear(int64_t in, int64_t out, bool bias) {
  const Initialiser uniform{Initialiser::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))};
  return std::make_shared<Linear>(in, out, bias, uniform, uniform);
}
ModulePtr linear(int64_t in, int64_t out, const Initialiser& weight, const std::optional<Initialiser>& bias) {
  return std::make_shared<Linear>(in, out, bias.has_value(), weight, bias.value_or(Initialiser{}));
}
ModulePtr normal_linear(int64_t in, int64_t out, bool bias, double deviation) {
  return linear(in, out, {Initialiser::Kind::kNormal, deviation}, bias ? std::optional(Initialiser{}) : std::nullopt);
}
ModulePtr embedding(int64_t rows, int64_t width, double deviation, std::optional<int64_t> padding_row) {
  return std::make_shared<Embedding>(rows, width, deviation, padding_row);
}
Value tied_output(ForwardContext& context, const Module& table, Value x) {
  const auto operand = [&](Value value) { return context.autocast.operand(backends::Op::kMatmul, value); };
  const Value weight = context.parameter(table.own_parameters().front().second);
  return ops::matmul(operand(x), operand(weight), false, true);
}
ModulePtr layer_norm(int64_t width, double eps, bool bias) {
  return std::make_shared<LayerNorm>(width, eps, bias);
}
ModulePtr rms_norm(int64_t width, double eps) {
  return std::make_shared<RmsNorm>(width, eps);
}
ModulePtr dropout(double p) {
  return std::make_shared<Dropout>(p);
}
ModulePtr activation(schema::Activation kind) {
  return std::make_shared<ActivationModule>(kind);
}
ModulePtr flatten() {
  return std::make_shared<Flatten>();
}
ModulePtr over_flat_samples(ModulePtr inner) {
  return std::make_shared<OverFlatSamples>(std::move(inner));
}
ModulePtr sequential(std::vector<ModulePtr> members) {
  return std::make_shared<Sequential>(std::move(members));
}

}  // namespace runner::nn
