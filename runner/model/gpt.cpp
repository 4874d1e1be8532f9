// model.type gpt: GPT-2 (Radford et al. 2019) with the parameter names of nanoGPT and transformers.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "runner/model/attention.h"
#include "runner/model/key_cache.h"
#include "runner/model/model_def.h"
#include "runner/model/transformer_sizes.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Shape;

// Deviation of the weights of projections that are added to the residual stream.
double residual_deviation(const schema::ModelSpec& spec) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

class GptAttention : public Group {
 public:
  explicit GptAttention(const schema::ModelSpec& spec)
      : heads_(spec.heads),
        dropout_(spec.dropout),
        c_attn_(member("c_attn", normal_linear(spec.width, 3 * spec.width, spec.bias, kInitialDeviation))),
        c_proj_(member("c_proj", normal_linear(spec.width, spec.width, spec.bias, residual_deviation(spec)))) {}

 private:
  // x: (B, T, C)
  Value record(ForwardContext& context, Value x) const override {
    const Value all = c_attn_->forward(context, x);
    const int64_t samples = all.shape()[0], tokens = all.shape()[1], width = x.shape()[2] / heads_;
    // q, k and v are views of this copy.
    const Value by_part = ops::permute(ops::reshape(all, Shape{samples, tokens, 3, heads_, width}),
                                       std::array<int64_t, 5>{2, 0, 3, 1, 4});
    const auto part = [&](int64_t i) {
      return ops::reshape(ops::slice(by_part, 0, i, i + 1), Shape{samples, heads_, tokens, width});
    };
    const Value mixed = attention(context, part(0), part(1), part(2), {.causal = true, .dropout = dropout_});
    return apply_dropout(context, c_proj_->forward(context, merge_heads(mixed)), dropout_);
  }

  const int64_t heads_;
  const double dropout_;
  const ModulePtr c_attn_, c_proj_;
};

class GptMlp : public Group {
 public:
  explicit GptMlp(const schema::ModelSpec& spec)
      : dropout_(spec.dropout),
        c_fc_(member("c_fc", normal_linear(spec.width, mlp_width_of(spec), spec.bias, kInitialDeviation))),
        c_proj_(member("c_proj", normal_linear(mlp_width_of(spec), spec.width, spec.bias, residual_deviation(spec)))),
        activation_(activation(spec.activation)) {}

 private:
  Value record(ForwardContext& context, Value x) const override {
    const Value hidden = activation_->forward(context, c_fc_->forward(context, x));
    return apply_dropout(context, c_proj_->forward(context, hidden), dropout_);
  }

  const double dropout_;
  const ModulePtr c_fc_, c_proj_, activation_;
};

class GptBlock : public Group {
 public:
  explicit GptBlock(const schema::ModelSpec& spec)
      : ln_1_(member("ln_1", layer_norm(spec.width, kNormEpsilon, spec.bias))),
        attn_(member("attn", std::make_shared<GptAttention>(spec))),
        ln_2_(member("ln_2", layer_norm(spec.width, kNormEpsilon, spec.bias))),
        mlp_(member("mlp", std::make_shared<GptMlp>(spec))) {}

 private:
  Value record(ForwardContext& context, Value x) const override {
    x = ops::add(x, Autocast::raise(attn_->forward(context, ln_1_->forward(context, x))));
    return ops::add(x, Autocast::raise(mlp_->forward(context, ln_2_->forward(context, x))));
  }

  const ModulePtr ln_1_, attn_, ln_2_, mlp_;
};

class Gpt : public Group {
 public:
  Gpt(const schema::ModelSpec& spec, int64_t vocabulary, int64_t context)
      : dropout_(spec.dropout),
        wte_(member("transformer.wte", embedding(vocabulary, spec.width, kInitialDeviation))),
        wpe_(member("transformer.wpe", embedding(context, spec.width, kInitialDeviation))) {
    for (int64_t layer = 0; layer < spec.layers; ++layer)
      blocks_.push_back(member(fmt::format("transformer.h.{}", layer), std::make_shared<GptBlock>(spec)));
    ln_f_ = member("transformer.ln_f", layer_norm(spec.width, kNormEpsilon, spec.bias));
    if (!spec.tie_weights)
      lm_head_ = member("lm_head", normal_linear(spec.width, vocabulary, /*bias=*/false, kInitialDeviation));
  }

 private:
  // ids: (B, T) i64. Returns logits (B, T, vocabulary), with a cache (B, 1, vocabulary).
  Value record(ForwardContext& context, Value ids) const override {
    const Value places = token_positions(context, ids.shape()[1]);
    Value x = ops::add(wte_->forward(context, ids), wpe_->forward(context, places));
    x = apply_dropout(context, x, dropout_);
    for (const ModulePtr& block : blocks_) x = forward_block(context, *block, x);
    x = ln_f_->forward(context, predicting_tokens(context, x));
    return lm_head_ != nullptr ? lm_head_->forward(context, x) : tied_output(context, *wte_, x);
  }

  const double dropout_;
  const ModulePtr wte_, wpe_;
  std::vector<ModulePtr> blocks_;
  ModulePtr ln_f_, lm_head_;
};

const PretrainedDef& gpt_of_the_hub() {
  static const PretrainedDef def{
      .model_type = "gpt2",
      .keys = {{.names = {"n_layer"}, .field = "model.layers", .fallback = int64_t{12}},
               {.names = {"n_head"}, .field = "model.heads", .fallback = int64_t{12}},
               {.names = {"n_embd"}, .field = "model.width", .fallback = int64_t{768}},
               {.names = {"n_inner"}, .field = "model.mlp_width"},
               {.names = {"n_positions", "n_ctx"}, .field = "model.context", .fallback = int64_t{1024}},
               {.names = {"vocab_size"}, .field = "model.vocabulary", .fallback = int64_t{50257}},
               {.names = {"tie_word_embeddings"}, .field = "model.tie_weights", .fallback = true},
               {.names = {"activation_function"},
                .field = "model.activation",
                .fallback = "gelu_tanh",
                .choices = {{"gelu_new", "gelu_tanh"},
                            {"gelu_pytorch_tanh", "gelu_tanh"},
                            {"gelu", "gelu"},
                            {"relu", "relu"},
                            {"silu", "silu"},
                            {"tanh", "tanh"}}},
               {.names = {"resid_pdrop", "embd_pdrop", "attn_pdrop"},
                .field = "model.dropout",
                .fallback = 0.1,
                .may_differ = true}},
      .fixed = {{"layer_norm_epsilon", kNormEpsilon},
                {"scale_attn_weights", true},
                {"scale_attn_by_inverse_layer_idx", false},
                {"add_cross_attention", false}},
      .prefix = "transformer.",
      .roots = {"wte.", "wpe.", "h.", "ln_f."},
      .ignored = {"*.attn.bias", "*.attn.masked_bias"},
      .conv1d = {"*.attn.c_attn.weight", "*.attn.c_proj.weight", "*.mlp.c_fc.weight", "*.mlp.c_proj.weight"},
      .head = {"lm_head.*"},
      .outputs = {},
      .conv1d_sample = "transformer.h.0.attn.c_attn.weight",
      .tied = {{"lm_head.weight", "transformer.wte.weight"}},
      .head_of = [](const schema::ModelSpec&) { return causal_head("GPT2LMHeadModel"); },
      .sizes = [](const schema::ModelSpec& spec,
                  const data::Encoding& data) { return sizes_by_field(spec, data, mlp_width_of(spec)); },
      .biased = {"transformer.h.*.weight", "transformer.ln_f.weight"},
  };
  return def;
}

constexpr std::string_view kGptEmbeddings[] = {"transformer.wte.", "transformer.wpe."};
constexpr TransformerNames kGptNames{.layers = "transformer.h.", .embeddings = kGptEmbeddings};

}  // namespace

const ModelDef kGptModel{
    .type = schema::ModelType::kGpt,
    .inputs = {.kind = ModelInputKind::kTokens,
               .least_axes = 1,
               .most_axes = 1,
               .others = kNoOthers,
               .outputs = OutputsPer::kToken},
    .check = check_sizes,
    .check_labels = check_next_tokens,
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      return std::make_shared<Gpt>(spec, vocabulary_of(spec, data), context_of(spec, data));
    },
    .transformer = &kGptNames,
    .output_layer = kNoNewHead,
    .pretrained = gpt_of_the_hub,
};

}  // namespace runner::nn
