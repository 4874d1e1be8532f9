// A training step of a small GPT: token and position embeddings, blocks of causal attention and an MLP, a head tied to
// the token embedding, gradients concatenated into one array, AdamW without clipping.
#pragma once

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/host_tensor.h"

namespace runner::backends::testing {

struct GptOptions {
  int64_t batch = 2, length = 8, width = 16, heads = 2, layers = 2, vocabulary = 11;
  // As under autocast: the dtype of products and the values between them; norms, softmax, losses and residual sums are
  // f32.
  DType product_dtype = DType::kF32;
};

class GptStep {
 public:
  explicit GptStep(const GptOptions& options) : o_(options) { record(); }

  const Program& program() const { return program_; }
  // Gradients of Σ losses, by parameter. The parameters are reshaped slices of state 0.
  std::span<const Value> gradients() const { return gradients_; }
  std::span<const Value> parameters() const { return parameters_; }
  Value losses() const { return losses_; }

  std::vector<HostTensor> inputs(uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, 0.2);
    std::vector<HostTensor> inputs;
    for (const Input& input : program_.inputs()) {
      const TensorType& type = program_.type(input.value);
      inputs.emplace_back(type, [&](int64_t) {
        if (is_float(type.dtype)) return input.name == "parameters" ? normal(random) : 0.0;
        return static_cast<double>(random() % static_cast<uint64_t>(o_.vocabulary));
      });
    }
    return inputs;
  }

 private:
  void record() {
    const int64_t d = o_.width;
    const int64_t count = (o_.vocabulary + o_.length) * d + o_.layers * (12 * d * d + 13 * d) + 2 * d;
    const TensorType flat{DType::kF32, Shape{count}};
    flat_ = input(InputKind::kState, "parameters", flat);
    const Value m = input(InputKind::kState, "exp_avg", flat), v = input(InputKind::kState, "exp_avg_sq", flat);
    const TensorType tokens{DType::kI64, Shape{o_.batch, o_.length}};
    const Value ids = input(InputKind::kBatch, "ids", tokens), labels = input(InputKind::kBatch, "labels", tokens);
    const Value rate = input(InputKind::kScalar, "rate", {});

    const Value table = take({o_.vocabulary, d}), positions = take({o_.length, d});
    Value x = ops::add(ops::embedding(table, ids), positions);
    for (int64_t layer = 0; layer < o_.layers; ++layer) {
      x = ops::add(x, full(attention(norm(x))));
      x = ops::add(x, full(mlp(norm(x))));
    }
    const Value logits = full(ops::matmul(narrow(norm(x)), narrow(table), false, true));
    losses_ = ops::cross_entropy(ops::reshape(logits, {o_.batch * o_.length, o_.vocabulary}), ops::flatten(labels));
    program_.output("loss", ops::mean(losses_).id);
    update(m, v, rate);
  }

  Value input(InputKind kind, const char* name, const TensorType& type) {
    return {&program_, program_.input(kind, name, type)};
  }

  Value take(const Shape& shape) {
    const int64_t start = offset_;
    offset_ += shape.elements();
    parameters_.push_back(ops::reshape(ops::slice(flat_, 0, start, offset_), shape));
    return parameters_.back();
  }

  Value narrow(Value x) { return ops::cast(x, o_.product_dtype); }
  Value full(Value x) { return ops::cast(x, DType::kF32); }

  Value norm(Value x) {
    const Value gamma = take({o_.width}), beta = take({o_.width});
    return ops::layer_norm(x, ops::add(gamma, 1.0), beta);
  }
  Value linear(Value x, int64_t in, int64_t out) {
    const Value weight = take({out, in}), bias = take({out});
    return ops::add(ops::matmul(narrow(x), narrow(weight), false, true), narrow(bias));
  }
  Value mlp(Value x) { return linear(ops::gelu(linear(x, o_.width, 4 * o_.width)), 4 * o_.width, o_.width); }

  // (B, T, D) -> (B, heads, T, D / heads)
  Value split(Value x, int64_t part) {
    const int64_t head = o_.width / o_.heads;
    const Value own = ops::slice(x, 2, part * o_.width, (part + 1) * o_.width);
    return ops::transpose(ops::reshape(own, {o_.batch, o_.length, o_.heads, head}), 1, 2);
  }

  Value attention(Value x) {
    const Value qkv = linear(x, o_.width, 3 * o_.width);
    const Value q = split(qkv, 0), k = split(qkv, 1), v = split(qkv, 2);
    const int64_t head_width = o_.width / o_.heads;
    const double scale = 1 / std::sqrt(static_cast<double>(head_width));
    Value scores = ops::mul(ops::matmul(q, k, false, true), scale);
    scores = ops::where(future(), ops::full_like(scores, -1e9), scores);
    const Value mixed = ops::transpose(ops::matmul(narrow(ops::softmax(full(scores))), v), 1, 2);
    return linear(ops::reshape(mixed, {o_.batch, o_.length, o_.width}), o_.width, o_.width);
  }

  // (T, T) bool: true if the column is after the row.
  Value future() {
    std::vector<Value> rows;
    for (int64_t t = 0; t < o_.length; ++t) {
      const Value ones{&program_, program_.constant(1, {DType::kBool, Shape{1, o_.length - 1 - t}})};
      rows.push_back(ops::pad(ones, 1, t + 1, 0));
    }
    return ops::concat(rows, 0);
  }

  // AdamW without bias correction.
  void update(Value m, Value v, Value rate) {
    gradients_ = differentiate(losses_, ops::full_like(losses_, 1.0), parameters_);
    std::vector<Value> flat;
    for (const Value grad : gradients_) flat.push_back(ops::flatten(grad));
    const Value g = ops::concat(flat, 0);
    const Value now_m = ops::add(ops::mul(m, 0.9), ops::mul(g, 0.1));
    const Value now_v = ops::add(ops::mul(v, 0.99), ops::mul(ops::mul(g, g), 0.01));
    const Value step = ops::mul(ops::div(now_m, ops::add(ops::sqrt(now_v), 1e-8)), rate);
    program_.output("", ops::sub(ops::mul(flat_, 0.999), step).id, 0);
    program_.output("", now_m.id, 1);
    program_.output("", now_v.id, 2);
  }

  GptOptions o_;
  Program program_;
  int64_t offset_ = 0;
  Value flat_, losses_;
  std::vector<Value> parameters_, gradients_;
};

}  // namespace runner::backends::testing
