// A training step as the trainer records it: an MLP whose parameters are slices of one flat buffer, its loss over a
// masked batch, gradients concatenated into one array, clipping, AdamW, and a step that is skipped unless everything is
// finite.
#pragma once

#include <numeric>

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {

struct MlpOptions {
  int64_t batch = 8;
  std::vector<int64_t> widths = {4, 16, 3};
  bool layer_norm = false;
  double dropout = 0;
  DType product_dtype = DType::kF32;
};

// Inputs: parameters, exp_avg, exp_avg_sq, features, labels, mask, sample_ids, key, keep, step_size, root.
enum MlpInput { kParameters, kExpAvg, kExpAvgSq, kFeatures, kLabels, kMask, kSampleIds, kKey, kKeep, kStepSize, kRoot };

class MlpStep {
 public:
  explicit MlpStep(const MlpOptions& options) : options_(options) { record(); }

  const Program& program() const { return program_; }
  int64_t parameter_count() const { return parameter_count_; }

  // Weights, and a batch whose label is the index of the largest of the first features.
  Inputs inputs(uint32_t seed) const {
    std::mt19937 random(seed);
    Inputs inputs;
    for (const Input& input : program_.inputs()) inputs.emplace_back(program_.type(input.value));
    std::normal_distribution<double> normal(0, 0.4);
    inputs[kParameters] = HostTensor(inputs[kParameters].type, [&](int64_t) { return normal(random); });
    HostTensor& x = inputs[kFeatures] = random_tensor(inputs[kFeatures].type, random);
    const int64_t width = options_.widths.front(), classes = options_.widths.back();
    inputs[kLabels] = HostTensor(inputs[kLabels].type, [&](int64_t row) {
      int64_t best = 0;
      for (int64_t c = 1; c < std::min(classes, width); ++c)
        if (x[row * width + c] > x[row * width + best]) best = c;
      return static_cast<double>(best);
    });
    inputs[kMask] = HostTensor(inputs[kMask].type, [](int64_t) { return 1.0; });
    inputs[kSampleIds] = HostTensor(inputs[kSampleIds].type, [](int64_t row) { return static_cast<double>(row); });
    set_step(inputs, 1);
    return inputs;
  }

  // Sets the scalars and the random key of step `step`, from 1.
  static void set_step(Inputs& inputs, int step) {
    constexpr double kRate = 0.02, kDecay = 0.01;
    inputs[kKey] = HostTensor(inputs[kKey].type, [step](int64_t i) { return i == 0 ? 42.0 : step; });
    inputs[kKeep].set(0, 1 - kRate * kDecay);
    inputs[kStepSize].set(0, kRate / (1 - std::pow(kBeta1, step)));
    inputs[kRoot].set(0, 1 / std::sqrt(1 - std::pow(kBeta2, step)));
  }

 private:
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999;

  Value input(InputKind kind, const char* name, const TensorType& type) {
    return {&program_, program_.input(kind, name, type)};
  }
  void line(int number) { program_.set_mark({"mlp.lua", number, 0}); }

  void record() {
    for (size_t i = 0; i + 1 < options_.widths.size(); ++i)
      parameter_count_ += (options_.widths[i] + (options_.layer_norm ? 3 : 1)) * options_.widths[i + 1];
    const TensorType flat{DType::kF32, Shape{parameter_count_}};
    line(1);
    const Value parameters = input(InputKind::kState, "parameters", flat);
    const Value m = input(InputKind::kState, "exp_avg", flat), v = input(InputKind::kState, "exp_avg_sq", flat);
    features_ = input(InputKind::kBatch, "features", {DType::kF32, Shape{options_.batch, options_.widths.front()}});
    const Value labels = input(InputKind::kBatch, "labels", {DType::kI64, Shape{options_.batch}});
    const Value mask = input(InputKind::kBatch, "mask", {DType::kF32, Shape{options_.batch}});
    sample_ids_ = input(InputKind::kBatch, "sample_ids", {DType::kI64, Shape{options_.batch}});
    key_ = input(InputKind::kBatch, "key", {DType::kI64, Shape{2}});
    scalars_ = {input(InputKind::kScalar, "keep", {}), input(InputKind::kScalar, "step_size", {}),
                input(InputKind::kScalar, "root", {})};

    const Value losses = ops::cross_entropy(forward(parameters), labels);
    line(90);
    const Value weight = ops::sum(mask);
    const Value loss = ops::div(ops::sum(ops::mul(losses, mask)), weight);
    const Value gradient = flat_gradient(losses, mask);
    line(91);
    update(parameters, m, v, ops::div(gradient, weight), ops::is_finite(loss));
    program_.output("loss", loss.id);
  }

  Value take(Value flat, const Shape& shape) {
    const int64_t start = offset_;
    offset_ += shape.elements();
    parts_.push_back(ops::reshape(ops::slice(flat, 0, start, offset_), shape));
    return parts_.back();
  }

  Value forward(Value parameters) {
    Value x = features_;
    for (size_t i = 0; i + 1 < options_.widths.size(); ++i) {
      const int64_t in = options_.widths[i], out = options_.widths[i + 1];
      const bool last = i + 2 == options_.widths.size();
      line(10 * static_cast<int>(i) + 10);
      const Value weight = take(parameters, {out, in}), bias = take(parameters, {out});
      const DType dtype = options_.product_dtype;
      const Value product = ops::matmul(ops::cast(x, dtype), ops::cast(weight, dtype), false, true);
      x = ops::add(ops::cast(product, DType::kF32), bias);
      line(10 * static_cast<int>(i) + 11);
      if (options_.layer_norm) {
        const Value gamma = take(parameters, {out}), beta = take(parameters, {out});
        x = ops::layer_norm(x, ops::add(gamma, 1.0), beta);
      }
      if (last) return x;
      x = options_.layer_norm ? ops::gelu(x) : ops::relu(x);
      line(10 * static_cast<int>(i) + 12);
      if (options_.dropout > 0)
        x = ops::mul(x, ops::dropout_mask(key_, sample_ids_, x.shape(), static_cast<int64_t>(i), options_.dropout));
    }
    return x;
  }

  Value flat_gradient(Value losses, Value mask) {
    std::vector<Value> flat;
    for (const Value grad : differentiate(losses, mask, parts_)) flat.push_back(ops::flatten(grad));
    return ops::concat(flat, 0);
  }

  void update(Value parameters, Value m, Value v, Value gradient, Value finite) {
    const Value norm = ops::sqrt(ops::sum(ops::mul(gradient, gradient)));
    program_.output("grad_norm", norm.id);
    const Value room = ops::div(1.0, ops::add(norm, 1e-6));
    const Value clip = ops::minimum(room, ops::full_like(room, 1.0));
    gradient = ops::mul(gradient, clip);
    const Value now_m = ops::add(m, ops::mul(ops::sub(gradient, m), 1 - kBeta1));
    const Value now_v = ops::add(ops::mul(v, kBeta2), ops::mul(ops::mul(gradient, gradient), 1 - kBeta2));
    const Value denominator = ops::add(ops::mul(ops::sqrt(now_v), scalars_[2]), 1e-8);
    const Value kept = ops::mul(parameters, scalars_[0]);
    const Value now = ops::sub(kept, ops::mul(scalars_[1], ops::div(now_m, denominator)));
    const std::pair<Value, Value> updates[] = {{now, parameters}, {now_m, m}, {now_v, v}};
    for (int32_t state = 0; state < 3; ++state)
      program_.output("", ops::where(finite, updates[state].first, updates[state].second).id, state);
  }

  MlpOptions options_;
  Program program_;
  int64_t parameter_count_ = 0, offset_ = 0;
  Value features_, sample_ids_, key_;
  std::vector<Value> scalars_, parts_;
};

}  // namespace runner::backends::testing
