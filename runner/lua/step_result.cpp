#include "runner/lua/step_result.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include <lua.hpp>

#include "backends/ir/needed.h"
#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/numbers.h"
#include "runner/lua/recording.h"
#include "runner/train/step/loss.h"
#include "schema/base/suggest.h"
#include "schema/recipe/metric_names.h"

namespace runner::lua {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using train::StepInputs;
using train::StepMetric;

Value by_sample(Value x) {
  std::array<int64_t, Shape::kMaxRank> axes{};
  const auto rank = static_cast<size_t>(x.shape().rank());
  for (size_t i = 1; i < rank; ++i) axes[i - 1] = static_cast<int64_t>(i);
  return rank <= 1 ? x : ops::sum(x, std::span(axes).first(rank - 1));
}

namespace {

// Returns the tensor or number `name` of the table at the top of the stack; unset if it is nil.
Value field(lua_State* state, const char* name, std::string_view what) {
  if (!push_field(state, -1, name)) return {};
  Value value;
  if (lua_type(state, -1) == LUA_TNUMBER) {
    value = host_number(recording_of(state, "a tensor"), lua_tonumber(state, -1));
  } else {
    value = tensor_value(state, -1, what);
  }
  lua_pop(state, 1);
  return value;
}

// Returns the divisor of the loss. An invalid number is an error at once; an invalid tensor is detected when the step
// runs.
Value weight_field(lua_State* state) {
  if (push_field(state, -1, "weight")) {
    const double weight = lua_type(state, -1) == LUA_TNUMBER ? lua_tonumber(state, -1) : 0;
    RUN_CHECK(weight >= 0, ErrorKind::kRun, "weight is {}, expected a number of at least 0", shown(weight));
    lua_pop(state, 1);
  }
  return field(state, "weight", "weight");
}

// Throws if a scalar is computed from the batch and includes its padding.
void check_masked(const StepInputs& inputs, Value value, const std::string& what) {
  if (!inputs.forward.mask || !value || value.shape().rank() > 0) return;
  const backends::Program& program = *value.program;
  const std::vector<char> needed = backends::needed_by(program, std::array{value.id});
  const auto is_used = [&](Value input) { return input && needed[static_cast<size_t>(input.id)] != 0; };
  RUN_CHECK(is_used(inputs.mask) || !(is_used(inputs.features) || is_used(inputs.labels)), ErrorKind::kRun,
            "eval.pad_last: {} is a scalar that includes padding; return one value per sample, or use batch.mask or a "
            "loss of nn, which leaves padding out",
            what);
}

// A negative weight would reverse a gradient. Makes such a loss NaN, which the run reports (train/step/not_finite.h).
void refuse_negative(train::StepLosses& step) {
  const Value wrong = ops::full_like(step.losses, std::numeric_limits<double>::quiet_NaN());
  step.losses = ops::where(ops::lt(step.weights, ops::full_like(step.weights, 0.0)), wrong, step.losses);
}

// loss: (), (B) or (B, …). Without a weight, a scalar is the mean over the samples, and each element has weight 1. With
// a weight, both scalars are sums.
template <class Step>
void set_loss(Step& step, const StepInputs& inputs, Value loss, Value weight) {
  RUN_CHECK(is_float(loss.dtype()), ErrorKind::kRun, "the loss is {}, expected a tensor of floats", loss.type());
  loss = ops::cast(loss, DType::kF32);
  const int64_t batch = inputs.mask.shape()[0];
  if (loss.shape().rank() == 0) {
    check_masked(inputs, loss, "the loss");
    check_masked(inputs, weight, "the weight");
    const Value samples = ops::sum(inputs.mask);
    if (weight && weight.shape().rank() > 0)
      weight = ops::sum(ops::mul(by_sample(ops::cast(weight, DType::kF32)), inputs.mask));
    step.losses = weight ? loss : ops::mul(loss, samples);
    step.weights = weight ? ops::cast(weight, DType::kF32) : samples;
    return;
  }
  RUN_CHECK(loss.shape()[0] == batch, ErrorKind::kRun,
            "the loss is {}, but the batch has {} samples: expected one loss per sample, or a scalar", loss.type(),
            batch);
  RUN_CHECK(!weight || weight.shape() == loss.shape(), ErrorKind::kRun,
            "the weight is {}, expected the shape of the loss {}", weight.type(), loss.type());
  step.losses = by_sample(loss);
  step.weights = by_sample(weight ? ops::cast(weight, DType::kF32) : ops::full_like(loss, 1.0));
}

// Distributes a sum over the batch evenly over the samples. Padding is masked when the values are used.
Value spread(const StepInputs& inputs, Value sum) {
  return ops::mul(ops::full_like(inputs.mask, 1.0), ops::div(sum, ops::sum(inputs.mask)));
}

void set_targets(train::StepPredictions& step, const StepInputs& inputs, Value targets) {
  RUN_CHECK(targets.type() == inputs.labels.type(), ErrorKind::kRun, "targets is {}, expected {} like the labels",
            targets.type(), inputs.labels.type());
  step.targets = targets;
}

StepMetric metric(const StepInputs& inputs, const std::string& name, Value value) {
  const Value samples = ops::cast(ops::sum(ops::on_host(inputs.mask)), DType::kF64);
  value = ops::cast(value, DType::kF32);
  if (value.shape().elements() == 1 && value.shape().rank() <= 1) {
    value = ops::reshape(value, Shape{});
    check_masked(inputs, value, fmt::format("the metric {}", name));
    return {name, ops::mul(ops::cast(ops::on_host(value), DType::kF64), samples), samples};
  }
  RUN_CHECK(value.shape() == inputs.mask.shape(), ErrorKind::kRun,
            "the metric {} is {}, expected a scalar or ({}), one value per sample", name, value.type(),
            inputs.mask.shape()[0]);
  return {name, ops::cast(ops::sum(ops::on_host(ops::mul(value, inputs.mask))), DType::kF64), samples};
}

// Returns whether `name` is `known` with one letter more or less, or with two letters swapped: "weights", "wieght".
bool is_slip(std::string_view name, std::string_view known) {
  if (schema::edit_distance(name, known) != 1) return false;
  const bool letters = std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
  return letters && (name.size() != known.size() || std::ranges::is_permutation(name, known));
}

// Rejects misspelled names of entries, which would silently become metrics.
void check_slip(const std::string& name, std::initializer_list<std::string_view> taken) {
  for (const std::string_view known : taken)
    RUN_CHECK(known == "loss" || !is_slip(name, known), ErrorKind::kRun,
              "a step returned '{}', which would be a metric; did you mean {}?", name, known);
}

// Returns the metrics in the table at the top of the stack: entries not in `taken`. Each is a scalar or one value per
// sample, and is averaged over the samples.
std::vector<StepMetric> metrics(lua_State* state, const StepInputs& inputs,
                                std::initializer_list<std::string_view> taken) {
  std::vector<StepMetric> metrics;
  for (const std::string& name : metric_keys(state, -1, "the result of a step")) {
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    check_slip(name, taken);
    RUN_CHECK(std::ranges::find(schema::kTrainingMetrics, name) == schema::kTrainingMetrics.end(), ErrorKind::kRun,
              "a step returned a metric '{}', which is a reserved name; return it under another name", name);
    metrics.push_back(metric(inputs, name, field(state, name.c_str(), name)));
  }
  return metrics;
}

}  // namespace

train::StepLosses take_losses(lua_State* state, const StepInputs& inputs) {
  train::StepLosses step;
  Value loss;
  if (is_tensor(state, -1)) {
    loss = tensor_value(state, -1, "the loss");
    set_loss(step, inputs, loss, {});
  } else {
    RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun,
              "training_step returned {}, expected a loss: a tensor, or a table with `loss`", type_name(state, -1));
    loss = field(state, "loss", "training_step returned a table whose `loss`");
    RUN_CHECK(bool{loss}, ErrorKind::kRun, "training_step returned a table without `loss`");
    const Value weight = weight_field(state);
    set_loss(step, inputs, loss, weight);
    if (weight) refuse_negative(step);
    step.metrics = metrics(state, inputs, {"loss", "weight"});
  }
  step.loss_shape = train::loss_shape_digest(loss.shape());
  lua_pop(state, 1);
  return step;
}

train::StepPredictions take_predictions(lua_State* state, const StepInputs& inputs) {
  train::StepPredictions step;
  if (is_tensor(state, -1)) {
    step.predictions = tensor_value(state, -1, "the predictions");
  } else {
    RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun,
              "evaluation_step returned {}, expected predictions: a tensor, or a table with `predictions`",
              type_name(state, -1));
    step.predictions = field(state, "predictions", "evaluation_step returned a table whose `predictions`");
    RUN_CHECK(bool{step.predictions}, ErrorKind::kRun, "evaluation_step returned a table without `predictions`");
    if (const Value targets = field(state, "targets", "targets")) set_targets(step, inputs, targets);
    const Value loss = field(state, "loss", "loss");
    if (loss) set_loss(step, inputs, loss, weight_field(state));
    if (loss && step.losses.shape().rank() == 0) {
      step.losses = spread(inputs, step.losses);
      step.weights = spread(inputs, step.weights);
    }
    step.metrics = metrics(state, inputs, {"predictions", "targets", "loss", "weight"});
  }
  RUN_CHECK(step.predictions.shape() == inputs.outputs, ErrorKind::kRun,
            "evaluation_step returned predictions {}, expected {} f32: {} outputs per {}", step.predictions.type(),
            inputs.outputs.to_string(), inputs.outputs.back(), inputs.outputs.rank() == 2 ? "sample" : "token");
  step.predictions = ops::cast(step.predictions, DType::kF32);
  lua_pop(state, 1);
  return step;
}

}  // namespace runner::lua
