// model.type encoder: BERT (Devlin et al. 2018) with the parameter names and the computation of transformers.
#include <algorithm>

#include <fmt/format.h>

#include "runner/model/attention.h"
#include "runner/model/model_def.h"
#include "runner/model/transformer_sizes.h"
#include "schema/base/text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using schema::ModelHead;

constexpr double kEpsilon = 1e-12;
constexpr int64_t kPaddingRow = 0;

constexpr std::string_view kMask = "attention_mask", kSegments = "token_type_ids";

ModulePtr bert_linear(int64_t in, int64_t out) {
  return normal_linear(in, out, /*bias=*/true, kInitialDeviation);
}
ModulePtr bert_norm(int64_t width) {
  return layer_norm(width, kEpsilon);
}

class EncoderEmbeddings : public Group {
 public:
  EncoderEmbeddings(const schema::ModelSpec& spec, int64_t rows, int64_t context)
      : dropout_(spec.dropout),
        words_(member("word_embeddings", embedding(rows, spec.width, kInitialDeviation, kPaddingRow))),
        places_(member("position_embeddings", embedding(context, spec.width, kInitialDeviation))),
        segments_(member("token_type_embeddings", embedding(spec.segments, spec.width, kInitialDeviation))),
        norm_(member("LayerNorm", bert_norm(spec.width))) {}

  const Module& table() const { return *words_; }

 private:
  // ids: (B, T) i64 -> (B, T, C)
  Value record(ForwardContext& context, Value ids) const override {
    const Value places = ops::arange(context.program, ids.shape()[1]);
    const Value given = context.find_input(kSegments);
    const Value segments = given ? given : ops::full_like(ids, 0);
    const Value x = ops::add(ops::add(words_->forward(context, ids), segments_->forward(context, segments)),
                             places_->forward(context, places));
    return apply_dropout(context, norm_->forward(context, x), dropout_);
  }

  const double dropout_;
  const ModulePtr words_, places_, segments_, norm_;
};

class EncoderLayer : public Group {
 public:
  explicit EncoderLayer(const schema::ModelSpec& spec) : heads_(spec.heads), dropout_(spec.dropout) {
    const int64_t width = spec.width, inner = mlp_width_of(spec);
    for (size_t i = 0; i < 3; ++i)
      projections_[i] = member(fmt::format("attention.self.{}", kProjections[i]), bert_linear(width, width));
    mixed_ = residual_output("attention.output", width, width);
    inner_ = member("intermediate.dense", bert_linear(width, inner));
    output_ = residual_output("output", inner, width);
  }

 private:
  static constexpr const char* kProjections[] = {"query", "key", "value"};

  // A linear layer whose result is added to the residual stream, and the norm after it.
  struct ResidualOutput {
    ModulePtr dense, norm;
  };

  ResidualOutput residual_output(const std::string& name, int64_t in, int64_t width) {
    return {.dense = member(name + ".dense", bert_linear(in, width)),
            .norm = member(name + ".LayerNorm", bert_norm(width))};
  }

  Value add_output(ForwardContext& context, Value residual, const ResidualOutput& output, Value x) const {
    const Value added = apply_dropout(context, output.dense->forward(context, x), dropout_);
    return output.norm->forward(context, ops::add(Autocast::raise(added), Autocast::raise(residual)));
  }

  // x: (B, T, C)
  Value record(ForwardContext& context, Value x) const override {
    const auto part = [&](size_t i) { return split_heads(projections_[i]->forward(context, x), heads_); };
    const Value q = part(0), k = part(1), v = part(2);
    const AttentionOptions options{.dropout = dropout_, .key_mask = context.find_input(kMask)};
    x = add_output(context, x, mixed_, merge_heads(attention(context, q, k, v, options)));
    return add_output(context, x, output_, ops::gelu(inner_->forward(context, x)));
  }

  const int64_t heads_;
  const double dropout_;
  ModulePtr projections_[3], inner_;
  ResidualOutput mixed_, output_;
};

class Bert : public Group {
 public:
  Bert(const schema::ModelSpec& spec, int64_t rows, int64_t context)
      : embeddings_(member("embeddings", std::make_shared<EncoderEmbeddings>(spec, rows, context))) {
    for (int64_t layer = 0; layer < spec.layers; ++layer)
      layers_.push_back(member(fmt::format("encoder.layer.{}", layer), std::make_shared<EncoderLayer>(spec)));
    if (spec.head == ModelHead::kClassification || spec.head == ModelHead::kRegression)
      pooler_ = member("pooler.dense", bert_linear(spec.width, spec.width));
  }

  const Module& table() const { return embeddings_->table(); }

  // x: (B, T, C). Returns (B, C), from the first token.
  Value pool(ForwardContext& context, Value x) const {
    const Value first = ops::reshape(ops::slice(x, 1, 0, 1), Shape{x.shape()[0], x.shape()[2]});
    return ops::tanh(pooler_->forward(context, first));
  }

 private:
  // ids: (B, T) i64 -> (B, T, C)
  Value record(ForwardContext& context, Value ids) const override {
    Value x = embeddings_->forward(context, ids);
    for (const ModulePtr& layer : layers_) x = forward_block(context, *layer, x);
    return x;
  }

  std::shared_ptr<EncoderEmbeddings> embeddings_;
  std::vector<ModulePtr> layers_;
  ModulePtr pooler_;
};

// The output layer of masked_lm: the table of token embeddings, and a bias of its own.
class TiedDecoder : public Module {
 public:
  TiedDecoder(const Bert& bert, int64_t rows) : bert_(bert), rows_(rows) {}

 private:
  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    bias_ = parameters.add(prefix + "bias", Shape{rows_}, Initialiser{}, ParameterRole::kBias);
  }
  Value record(ForwardContext& context, Value x) const override {
    const Value bias = context.autocast.operand(backends::Op::kMatmul, context.parameter(bias_));
    return ops::add(tied_output(context, bert_.table(), x), bias);
  }

  const Bert& bert_;
  const int64_t rows_;
  ParameterId bias_ = kNoParameter;
};

// (B, T, C) -> (B, C): the mean over the visible tokens.
Value mean_of_visible(ForwardContext& context, Value x) {
  const int64_t over_tokens[] = {1};
  const Value given = context.find_input(kMask);
  if (!given) return ops::mean(x, over_tokens);
  const Value visible = ops::cast(ops::ne(given, ops::full_like(given, 0)), DType::kF32);
  const Value total = ops::sum(ops::mul(x, ops::unsqueeze(visible, 2)), over_tokens);
  const Value count = ops::sum(visible, over_tokens, /*keep_dims=*/true);
  return ops::div(total, ops::maximum(count, ops::full_like(count, 1)));
}

class Encoder : public Group {
 public:
  Encoder(const schema::ModelSpec& spec, int64_t rows, int64_t context, int64_t outputs)
      : head_(spec.head), dropout_(spec.dropout), bert_(member("bert", std::make_shared<Bert>(spec, rows, context))) {
    if (head_ == ModelHead::kNone) return;
    if (head_ == ModelHead::kMaskedLm) {
      output_ = member("cls.predictions", std::make_shared<TiedDecoder>(*bert_, rows));
      transform_ = member("cls.predictions.transform.dense", bert_linear(spec.width, spec.width));
      norm_ = member("cls.predictions.transform.LayerNorm", bert_norm(spec.width));
    } else {
      output_ = member("classifier", bert_linear(spec.width, outputs));
    }
  }

 private:
  // ids: (B, T) i64
  Value record(ForwardContext& context, Value ids) const override {
    Value x = bert_->forward(context, ids);
    if (head_ == ModelHead::kNone) return mean_of_visible(context, x);
    if (head_ == ModelHead::kMaskedLm) {
      x = norm_->forward(context, ops::gelu(transform_->forward(context, x)));
    } else {
      if (head_ != ModelHead::kTokenClassification) x = bert_->pool(context, x);
      x = apply_dropout(context, x, dropout_);
    }
    return output_->forward(context, x);
  }

  const ModelHead head_;
  const double dropout_;
  const std::shared_ptr<Bert> bert_;
  ModulePtr output_, transform_, norm_;
};

// ---- checks ---------------------------------------------------------------------------------------------------------

void check_other_inputs(const schema::ModelSpec& spec, const data::Encoding& data) {
  for (const data::SampleInput& input : data.more_inputs) {
    if (input.name != kMask && input.name != kSegments) continue;
    RUN_CHECK(input.shape == data.feature_shape, ErrorKind::kRecipe,
              "model.type encoder needs a value of {} for each token, {}, but samples of data.train have {}",
              input.name, data.feature_shape.to_string(), input.shape.to_string());
    RUN_CHECK(input.name != kSegments || input.vocabulary <= spec.segments, ErrorKind::kRecipe,
              "model.segments is {}, but data.train has token_type_ids up to {}", spec.segments, input.vocabulary - 1);
  }
}

void check_encoder(const schema::ModelSpec& spec, const data::Encoding& data) {
  check_sizes(spec, data);
  check_other_inputs(spec, data);
}

// Describes the labels that the data have.
std::string found_labels_text(const data::Encoding& data) {
  const bool per_token = data.has_token_labels();
  if (data.masking) return "masked tokens as labels";
  if (data.token_labels == data::TokenLabels::kOwn) return "tokens as labels";
  if (data.predicts_tokens()) return "the next token as the label of each token";
  if (data.label_kind == data::LabelKind::kTarget)
    return fmt::format("{} per sample", count_text(data.outputs, "number"));
  return per_token ? fmt::format("one of {} per token", count_text(data.outputs, "class")) : "a class per sample";
}

void check_labels(const schema::ModelSpec& spec, const data::Encoding& data) {
  const bool is_class = data.label_kind == data::LabelKind::kClass, per_token = data.has_token_labels();
  const bool predicts_next = data.token_labels == data::TokenLabels::kNext;
  const auto expect = [&](bool fits, const std::string& needed) {
    const bool can_mask = spec.head == ModelHead::kMaskedLm && predicts_next;
    RUN_CHECK(fits, ErrorKind::kRecipe, "model.head {} needs {} as label, but data.train has {}{}", name_of(spec.head),
              needed, found_labels_text(data), can_mask ? "; set train.objective: {type: masked_lm}" : "");
  };
  switch (spec.head) {
    case ModelHead::kClassification: return expect(is_class && !per_token, "a class per sample");
    case ModelHead::kRegression: return expect(!is_class && !per_token, "numbers per sample");
    case ModelHead::kTokenClassification:
      return expect(is_class && per_token && !data.predicts_tokens(), "a class per token");
    case ModelHead::kMaskedLm:
      return expect(is_class && per_token && !predicts_next && data.outputs == vocabulary_of(spec, data),
                    fmt::format("one of {} tokens per masked token", vocabulary_of(spec, data)));
    case ModelHead::kNone:
      return expect(!is_class && !per_token && data.outputs == spec.width,
                    fmt::format("{} numbers per sample", spec.width));
  }
}

HubHead bert_head(const schema::ModelSpec& spec) {
  switch (spec.head) {
    case ModelHead::kClassification:
      return {.architecture = "BertForSequenceClassification", .peft_task = "SEQ_CLS", .has_labels = true};
    case ModelHead::kRegression:
      return {.architecture = "BertForSequenceClassification",
              .peft_task = "SEQ_CLS",
              .has_labels = true,
              .problem_type = "regression"};
    case ModelHead::kTokenClassification:
      return {.architecture = "BertForTokenClassification", .peft_task = "TOKEN_CLS", .has_labels = true};
    case ModelHead::kMaskedLm: return {.architecture = "BertForMaskedLM"};
    case ModelHead::kNone: return {.architecture = "BertModel", .peft_task = "FEATURE_EXTRACTION", .has_prefix = false};
  }
  return {};
}

const PretrainedDef& bert_of_the_hub() {
  static const PretrainedDef def{
      .model_type = "bert",
      .keys = {{.names = {"num_hidden_layers"}, .field = "model.layers", .fallback = int64_t{12}},
               {.names = {"num_attention_heads"}, .field = "model.heads", .fallback = int64_t{12}},
               {.names = {"hidden_size"}, .field = "model.width", .fallback = int64_t{768}},
               {.names = {"intermediate_size"}, .field = "model.mlp_width", .fallback = int64_t{3072}},
               {.names = {"max_position_embeddings"}, .field = "model.context", .fallback = int64_t{512}},
               {.names = {"vocab_size"}, .field = "model.vocabulary", .fallback = int64_t{30522}},
               {.names = {"type_vocab_size"}, .field = "model.segments", .fallback = int64_t{2}},
               {.names = {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"},
                .field = "model.dropout",
                .fallback = 0.1,
                .may_differ = true}},
      .fixed = {{"hidden_act", "gelu"},
                {"layer_norm_eps", kEpsilon},
                {"position_embedding_type", "absolute"},
                {"is_decoder", false},
                {"add_cross_attention", false},
                {"tie_word_embeddings", true}},
      .prefix = "bert.",
      .roots = {"embeddings.", "encoder.", "pooler."},
      .ignored = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"},
      .conv1d = {},
      .head = {"bert.pooler.*", "classifier.*", "cls.*"},
      .outputs = {"classifier.*"},
      .conv1d_sample = "",
      .tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
               {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
      .head_of = bert_head,
      .sizes = [](const schema::ModelSpec& spec,
                  const data::Encoding& data) { return sizes_by_field(spec, data, mlp_width_of(spec)); },
      .biased = {},
  };
  return def;
}

constexpr std::string_view kEncoderEmbeddings[] = {"bert.embeddings."};
constexpr TransformerNames kEncoderNames{.layers = "bert.encoder.layer.", .embeddings = kEncoderEmbeddings};

}  // namespace

const ModelDef kEncoderModel{
    .type = schema::ModelType::kEncoder,
    .inputs = {.kind = ModelInputKind::kTokens,
               .least_axes = 1,
               .most_axes = 1,
               .others = kNoOthers,
               .outputs = OutputsPer::kByHead},
    .check = check_encoder,
    .check_labels = check_labels,
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      return std::make_shared<Encoder>(spec, vocabulary_of(spec, data), context_of(spec, data), data.outputs);
    },
    .transformer = &kEncoderNames,
    .output_layer = kNoNewHead,
    .pretrained = bert_of_the_hub,
};

}  // namespace runner::nn
