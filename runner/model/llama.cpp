// model.type llama: Llama (Touvron et al. 2023) with the parameter names of transformers, without biases.
#include <numbers>

#include <fmt/format.h>

#include "runner/model/attention.h"
#include "runner/model/key_cache.h"
#include "runner/model/model_def.h"
#include "runner/model/transformer_sizes.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;

int64_t head_width(const schema::ModelSpec& spec) {
  return spec.head_width.value_or(spec.width / spec.heads);
}

int64_t kv_heads(const schema::ModelSpec& spec) {
  return spec.kv_heads.value_or(spec.heads);
}

// The default is Llama's rule, which gives 11,008 for a width of 4,096.
int64_t llama_mlp_width(const schema::ModelSpec& spec) {
  constexpr int64_t kMultiple = 256;
  const int64_t least = 8 * spec.width / 3;
  return spec.mlp_width.value_or((least + kMultiple - 1) / kMultiple * kMultiple);
}

ModulePtr projection(int64_t in, int64_t out) {
  return normal_linear(in, out, /*bias=*/false, kInitialDeviation);
}

ModulePtr norm(const schema::ModelSpec& spec) {
  return rms_norm(spec.width, spec.norm_eps);
}

// Lower frequencies of rotary embeddings, computed and rounded as in transformers (modeling_rope_utils.py).
Value scaled(const schema::RopeScaling& scaling, Value frequencies) {
  const Value lowered = ops::div(frequencies, scaling.factor);
  if (scaling.type == schema::RopeScalingType::kLinear) return lowered;
  const Value wavelengths = ops::div(2 * std::numbers::pi, frequencies);
  const Value periods = ops::div(static_cast<double>(scaling.original_context), wavelengths);
  const Value share =
      ops::div(ops::sub(periods, scaling.low_freq_factor), scaling.high_freq_factor - scaling.low_freq_factor);
  const Value kept = ops::clamp(share, 0, 1);  // 0: lowered, 1: as it is
  return ops::add(ops::div(ops::mul(ops::sub(1, kept), frequencies), scaling.factor), ops::mul(kept, frequencies));
}

class LlamaAttention : public Group {
 public:
  explicit LlamaAttention(const schema::ModelSpec& spec)
      : heads_(spec.heads),
        kv_heads_(kv_heads(spec)),
        head_width_(head_width(spec)),
        theta_(spec.rope_theta),
        scaling_(spec.rope_scaling),
        dropout_(spec.dropout),
        q_proj_(member("q_proj", projection(spec.width, heads_ * head_width_))),
        k_proj_(member("k_proj", projection(spec.width, kv_heads_ * head_width_))),
        v_proj_(member("v_proj", projection(spec.width, kv_heads_ * head_width_))),
        o_proj_(member("o_proj", projection(heads_ * head_width_, spec.width))) {}

 private:
  // x: (B, T, C)
  Value record(ForwardContext& context, Value x) const override {
    const Value table = rotations(token_positions(context, x.shape()[1]));
    const auto heads = [&](const Module& module, int64_t count) {
      return split_heads(module.forward(context, x), count);
    };
    const Value q = ops::rotary(heads(*q_proj_, heads_), table), k = ops::rotary(heads(*k_proj_, kv_heads_), table);
    const Value mixed = attention(context, q, k, heads(*v_proj_, kv_heads_), {.causal = true, .dropout = dropout_});
    return o_proj_->forward(context, merge_heads(mixed));
  }

  // The table of positions (T) i64. All layers record the same nodes, which the cse pass merges.
  Value rotations(Value positions) const {
    const Value frequencies = rotary_frequencies(*positions.program, head_width_, theta_);
    return ops::rotary_table(positions, scaling_ ? scaled(*scaling_, frequencies) : frequencies);
  }

  const int64_t heads_, kv_heads_, head_width_;
  const double theta_;
  const std::optional<schema::RopeScaling> scaling_;
  const double dropout_;
  const ModulePtr q_proj_, k_proj_, v_proj_, o_proj_;
};

class LlamaMlp : public Group {
 public:
  explicit LlamaMlp(const schema::ModelSpec& spec)
      : gate_proj_(member("gate_proj", projection(spec.width, llama_mlp_width(spec)))),
        up_proj_(member("up_proj", projection(spec.width, llama_mlp_width(spec)))),
        down_proj_(member("down_proj", projection(llama_mlp_width(spec), spec.width))) {}

 private:
  Value record(ForwardContext& context, Value x) const override {
    const Value gate = gate_proj_->forward(context, x);
    return down_proj_->forward(context, ops::swiglu(gate, up_proj_->forward(context, x)));
  }

  const ModulePtr gate_proj_, up_proj_, down_proj_;
};

// Members have the order of transformers, which is not that of the computation.
class LlamaBlock : public Group {
 public:
  explicit LlamaBlock(const schema::ModelSpec& spec)
      : self_attn_(member("self_attn", std::make_shared<LlamaAttention>(spec))),
        mlp_(member("mlp", std::make_shared<LlamaMlp>(spec))),
        input_layernorm_(member("input_layernorm", norm(spec))),
        post_attention_layernorm_(member("post_attention_layernorm", norm(spec))) {}

 private:
  Value record(ForwardContext& context, Value x) const override {
    x = ops::add(x, Autocast::raise(self_attn_->forward(context, input_layernorm_->forward(context, x))));
    return ops::add(x, Autocast::raise(mlp_->forward(context, post_attention_layernorm_->forward(context, x))));
  }

  const ModulePtr self_attn_, mlp_, input_layernorm_, post_attention_layernorm_;
};

class Llama : public Group {
 public:
  Llama(const schema::ModelSpec& spec, int64_t vocabulary)
      : embed_tokens_(member("model.embed_tokens", embedding(vocabulary, spec.width, kInitialDeviation))) {
    for (int64_t layer = 0; layer < spec.layers; ++layer)
      blocks_.push_back(member(fmt::format("model.layers.{}", layer), std::make_shared<LlamaBlock>(spec)));
    norm_ = member("model.norm", norm(spec));
    if (!spec.tie_weights) lm_head_ = member("lm_head", projection(spec.width, vocabulary));
  }

 private:
  // ids: (B, T) i64. Returns logits (B, T, vocabulary), with a cache (B, 1, vocabulary).
  Value record(ForwardContext& context, Value ids) const override {
    Value x = embed_tokens_->forward(context, ids);
    for (const ModulePtr& block : blocks_) x = forward_block(context, *block, x);
    x = norm_->forward(context, predicting_tokens(context, x));
    return lm_head_ != nullptr ? lm_head_->forward(context, x) : tied_output(context, *embed_tokens_, x);
  }

  const ModulePtr embed_tokens_;
  std::vector<ModulePtr> blocks_;
  ModulePtr norm_, lm_head_;
};

// A recipe has the keys that are required; config.json may lack them.
void check_scaling(const schema::RopeScaling& scaling) {
  const auto require = [](bool is_there, const char* key) {
    RUN_CHECK(is_there, ErrorKind::kRecipe, "model.pretrained: config.json scales rotary embeddings, but lacks {}",
              key);
  };
  require(scaling.factor > 0, "factor");
  if (scaling.type != schema::RopeScalingType::kLlama3) return;
  require(scaling.original_context > 0, "original_max_position_embeddings");
  RUN_CHECK(scaling.low_freq_factor < scaling.high_freq_factor, ErrorKind::kRecipe,
            "model.rope_scaling.low_freq_factor is {}, expected less than high_freq_factor, {}",
            scaling.low_freq_factor, scaling.high_freq_factor);
}

void check_llama(const schema::ModelSpec& spec, const data::Encoding& data) {
  check_sizes(spec, data);
  RUN_CHECK(head_width(spec) % 2 == 0, ErrorKind::kRecipe,
            "rotary embeddings need heads of an even width, but model.{} is {}{}",
            spec.head_width ? "head_width" : "width", spec.head_width.value_or(spec.width),
            spec.head_width ? "" : fmt::format(", so each of {} heads has {} elements", spec.heads, head_width(spec)));
  if (spec.rope_scaling) check_scaling(*spec.rope_scaling);
  RUN_CHECK(spec.heads % kv_heads(spec) == 0, ErrorKind::kRecipe, "model.heads is {}, which {} kv_heads do not divide",
            spec.heads, kv_heads(spec));
}

const PretrainedDef& llama_of_the_hub() {
  static const PretrainedDef def{
      .model_type = "llama",
      .keys = {{.names = {"num_hidden_layers"}, .field = "model.layers", .fallback = int64_t{32}},
               {.names = {"num_attention_heads"}, .field = "model.heads", .fallback = int64_t{32}},
               {.names = {"num_key_value_heads"}, .field = "model.kv_heads"},
               {.names = {"hidden_size"}, .field = "model.width", .fallback = int64_t{4096}},
               {.names = {"head_dim"}, .field = "model.head_width"},
               {.names = {"intermediate_size"}, .field = "model.mlp_width", .fallback = int64_t{11008}},
               {.names = {"max_position_embeddings"},
                .field = "model.context",
                .fallback = int64_t{2048},
                .may_differ = true},
               {.names = {"vocab_size"}, .field = "model.vocabulary", .fallback = int64_t{32000}},
               {.names = {"rms_norm_eps"}, .field = "model.norm_eps", .fallback = 1e-6},
               {.names = {"rope_theta", "rope_parameters.rope_theta"}, .field = "model.rope_theta", .fallback = 1e4},
               {.names = {"rope_scaling.type", "rope_scaling.rope_type", "rope_parameters.rope_type"},
                .field = "model.rope_scaling.type",
                .choices = {{"default", ""}, {"linear", "linear"}, {"llama3", "llama3"}}},
               {.names = {"rope_scaling.factor", "rope_parameters.factor"}, .field = "model.rope_scaling.factor"},
               {.names = {"rope_scaling.low_freq_factor", "rope_parameters.low_freq_factor"},
                .field = "model.rope_scaling.low_freq_factor"},
               {.names = {"rope_scaling.high_freq_factor", "rope_parameters.high_freq_factor"},
                .field = "model.rope_scaling.high_freq_factor"},
               {.names = {"rope_scaling.original_max_position_embeddings",
                          "rope_parameters.original_max_position_embeddings"},
                .field = "model.rope_scaling.original_context"},
               {.names = {"tie_word_embeddings"}, .field = "model.tie_weights", .fallback = false},
               {.names = {"attention_dropout"}, .field = "model.dropout", .fallback = 0.0, .may_differ = true}},
      .fixed = {{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}, {"pretraining_tp", int64_t{1}}},
      .prefix = "model.",
      .roots = {"embed_tokens.", "layers.", "norm."},
      .ignored = {"*.rotary_emb.inv_freq"},
      .conv1d = {},
      .head = {"lm_head.*"},
      .outputs = {},
      .conv1d_sample = "",
      .tied = {{"lm_head.weight", "model.embed_tokens.weight"}},
      .head_of = [](const schema::ModelSpec&) { return causal_head("LlamaForCausalLM"); },
      .sizes = [](const schema::ModelSpec& spec,
                  const data::Encoding& data) { return sizes_by_field(spec, data, llama_mlp_width(spec)); },
      .biased = {},
  };
  return def;
}

constexpr std::string_view kLlamaEmbeddings[] = {"model.embed_tokens."};
constexpr TransformerNames kLlamaNames{.layers = "model.layers.", .embeddings = kLlamaEmbeddings};

}  // namespace

const ModelDef kLlamaModel{
    .type = schema::ModelType::kLlama,
    .inputs = {.kind = ModelInputKind::kTokens,
               .least_axes = 1,
               .most_axes = 1,
               .others = kNoOthers,
               .outputs = OutputsPer::kToken},
    .check = check_llama,
    .check_labels = check_next_tokens,
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      return std::make_shared<Llama>(spec, vocabulary_of(spec, data));
    },
    .transformer = &kLlamaNames,
    .output_layer = kNoNewHead,
    .pretrained = llama_of_the_hub,
};

}  // namespace runner::nn
