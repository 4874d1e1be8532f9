#include "runner/model/transformer.h"

#include <cmath>
#include <optional>

#include "runner/model/attention.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Op;
using backends::Shape;

class MultiheadAttention final : public AttentionModule {
 public:
  MultiheadAttention(int64_t width, int64_t heads, double dropout, bool bias)
      : width_(width),
        heads_(heads),
        dropout_(dropout),
        has_bias_(bias),
        out_proj_(member("out_proj",
                         linear(width, width, {Initialiser::Kind::kUniform, 1 / std::sqrt(static_cast<double>(width))},
                                bias ? std::optional(Initialiser{}) : std::nullopt))) {
    RUN_CHECK(width % heads == 0, ErrorKind::kRun, "{}: {} heads do not divide the width {}", type(), heads, width);
  }

  bool takes_keys() const override { return true; }
  std::string_view type() const override { return "nn.MultiheadAttention"; }
  std::string text() const override { return fmt::format("{}({}, {})", type(), width_, heads_); }
  std::vector<std::pair<std::string, ParameterId>> own_parameters() const override {
    std::vector<std::pair<std::string, ParameterId>> own{{"in_proj_weight", weight_}};
    if (has_bias_) own.emplace_back("in_proj_bias", bias_);
    return own;
  }

 private:
  // The weight is initialised as torch's xavier_uniform_.
  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    const double bound = std::sqrt(6 / static_cast<double>(4 * width_));
    weight_ =
        parameters.add(prefix + "in_proj_weight", Shape{3 * width_, width_}, {Initialiser::Kind::kUniform, bound});
    if (has_bias_) bias_ = parameters.add(prefix + "in_proj_bias", Shape{3 * width_}, {}, ParameterRole::kBias);
    AttentionModule::add_parameters(parameters, prefix);
  }

  Value record_call(ForwardContext& context, Value x, const AttentionCall& call) const override {
    const Value key = call.key ? call.key : x, value = call.value ? call.value : key;
    const AttentionOptions options{.causal = call.causal, .dropout = dropout_, .mask = call.mask};
    const Value heads =
        attention(context, projected(context, x, 0), projected(context, key, 1), projected(context, value, 2), options);
    return out_proj_->forward(context, merge_heads(heads));
  }

  // Projection `part` of x: 0 queries, 1 keys, 2 values. Returns (B, heads, T, D).
  Value projected(ForwardContext& context, Value x, int64_t part) const {
    const auto operand = [&](Value tensor) { return context.autocast.operand(Op::kMatmul, tensor); };
    const auto rows = [&](ParameterId id) {
      return operand(ops::slice(context.parameter(id), 0, part * width_, (part + 1) * width_));
    };
    RUN_CHECK(x.shape().rank() == 3 && x.shape()[2] == width_, ErrorKind::kRun,
              "expected sequences (B, T, {}) of floats, got {}", width_, x.type().to_string());
    const Value y = ops::matmul(operand(x), rows(weight_), false, true);
    return split_heads(has_bias_ ? ops::add(y, rows(bias_)) : y, heads_);
  }

  const int64_t width_, heads_;
  const double dropout_;
  const bool has_bias_;
  const ModulePtr out_proj_;
  ParameterId weight_ = kNoParameter, bias_ = kNoParameter;
};

class TransformerEncoderLayer : public AttentionModule {
 public:
  explicit TransformerEncoderLayer(const EncoderLayerOptions& options)
      : options_(options),
        self_attn_(
            member("self_attn", multihead_attention(options.width, options.heads, options.dropout, options.bias))),
        linear1_(member("linear1", linear(options.width, options.feedforward, options.bias))),
        linear2_(member("linear2", linear(options.feedforward, options.width, options.bias))),
        norm1_(member("norm1", layer_norm(options.width, options.eps, options.bias))),
        norm2_(member("norm2", layer_norm(options.width, options.eps, options.bias))),
        activation_(nn::activation(options.activation)) {}

  bool takes_keys() const override { return false; }
  std::string_view type() const override { return "nn.TransformerEncoderLayer"; }
  std::string text() const override { return fmt::format("{}({}, {})", type(), options_.width, options_.heads); }

 private:
  Value record_call(ForwardContext& context, Value x, const AttentionCall& call) const override {
    const auto attended = [&](Value tokens) { return dropped(context, self_attn_->attend(context, tokens, call)); };
    const auto transformed = [&](Value tokens) {
      const Value hidden = activation_->forward(context, linear1_->forward(context, tokens));
      return dropped(context, linear2_->forward(context, apply_dropout(context, hidden, options_.dropout)));
    };
    x = Autocast::raise(x);
    if (options_.norm_first) {
      x = ops::add(x, attended(norm1_->forward(context, x)));
      return ops::add(x, transformed(norm2_->forward(context, x)));
    }
    x = norm1_->forward(context, ops::add(x, attended(x)));
    return norm2_->forward(context, ops::add(x, transformed(x)));
  }

  Value dropped(ForwardContext& context, Value x) const {
    return Autocast::raise(apply_dropout(context, x, options_.dropout));
  }

  const EncoderLayerOptions options_;
  const std::shared_ptr<AttentionModule> self_attn_;
  const ModulePtr linear1_, linear2_, norm1_, norm2_, activation_;
};

}  // namespace

Value AttentionModule::attend(ForwardContext& context, Value x, const AttentionCall& call) const {
  try {
    return record_call(context, x, call);
  } catch (const Error& error) {
    throw with_place(context, error);
  }
}

std::shared_ptr<AttentionModule> multihead_attention(int64_t width, int64_t heads, double dropout, bool bias) {
  return std::make_shared<MultiheadAttention>(width, heads, dropout, bias);
}
ModulePtr transformer_encoder_layer(const EncoderLayerOptions& options) {
  return std::make_shared<TransformerEncoderLayer>(options);
}

}  // namespace runner::nn
