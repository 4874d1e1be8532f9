#include <string>
#include <vector>

#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/numbers.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua::losses {
namespace {

namespace ops = backends::ops;
using nn::Autocast;

constexpr int kOptions = 3;  // index of the argument with the options

enum class Reduced { kNone, kMean, kSum };

Reduced reduction_of(lua_State* state, const OptionTable& options) {
  const std::string name = options.text("reduction", "mean");
  if (name == "none") return Reduced::kNone;
  if (name == "sum") return Reduced::kSum;
  RUN_CHECK(name == "mean", ErrorKind::kRun, "{}: unknown reduction '{}'; expected none, mean or sum", called_as(state),
            name);
  return Reduced::kMean;
}

// Whether a value is computed from the batch, or from random numbers of its samples.
bool is_of_batch(Value value) {
  const backends::Program& program = *value.program;
  std::vector<bool> seen(static_cast<size_t>(value.id) + 1);
  std::vector<backends::ValueId> left = {value.id};
  while (!left.empty()) {
    const backends::ValueId id = left.back();
    left.pop_back();
    if (seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    const backends::Input* input = program.input_of(id);
    if (input != nullptr && input->kind == backends::InputKind::kBatch) return true;
    for (const backends::ValueId operand : program.operands(id)) left.push_back(operand);
  }
  return false;
}

// Returns the mask of the batch, expanded to the shape of the losses of its samples; unset if no sample is padding.
Value mask_of(lua_State* state, const Recording& recording, Value losses) {
  const Value mask = recording.forward().mask;
  if (!mask || losses.shape().rank() == 0 || !is_of_batch(losses)) return {};
  RUN_CHECK(losses.shape()[0] == mask.shape()[0], ErrorKind::kRun,
            "{}: some samples of this batch are padding, and a mean or sum must leave them out, but the losses are {} "
            "and the batch has {} samples; make one row per sample, or use reduction = \"none\" with weights made of "
            "batch.mask",
            called_as(state), losses.type(), mask.shape()[0]);
  std::vector<int64_t> dims(static_cast<size_t>(losses.shape().rank()), 1);
  dims[0] = mask.shape()[0];
  return ops::expand(ops::reshape(ops::cast(mask, losses.dtype()), backends::Shape(dims)), losses.shape());
}

// Returns Σ mask · losses / Σ mask · weights. 0 if all samples are padding.
Value mean_without_padding(Value losses, Value weights, Value mask) {
  const Value none = ops::relu(ops::sub(1.0, ops::sum(mask)));
  return ops::div(ops::sum(ops::mul(losses, mask)), ops::add(ops::sum(ops::mul(weights, mask)), none));
}

int push_reduced(lua_State* state, const Recording& recording, Value losses, Reduced how) {
  if (how == Reduced::kNone) return push_tensor(state, losses);
  const Value mask = mask_of(state, recording, losses);
  if (how == Reduced::kSum) return push_tensor(state, ops::sum(mask ? ops::mul(losses, mask) : losses));
  return push_tensor(state, mask ? mean_without_padding(losses, ops::full_like(mask, 1.0), mask) : ops::mean(losses));
}

struct Pair {
  Value prediction, target;
  const Recording& recording;
};
Pair pair_of(lua_State* state) {
  const Value x = tensor_argument(state, 1), y = tensor_argument(state, 2);
  const Recording& recording = record_here(state);
  RUN_CHECK(x.shape() == y.shape(), ErrorKind::kRun,
            "{}: expected equal shapes of prediction and target, got {} and {}", called_as(state), x.type(), y.type());
  return {Autocast::raise(x), Autocast::raise(y), recording};
}

template <class Loss>
int element_loss(lua_State* state, const Loss& loss) {
  const OptionTable given(state, kOptions, {"reduction"});
  const Pair pair = pair_of(state);
  return push_reduced(state, pair.recording, loss(pair.prediction, pair.target), reduction_of(state, given));
}

// Returns an option that is a list of numbers or a tensor; unset if it is not given.
Value weights_of(lua_State* state, const OptionTable& given, const char* name) {
  if (!given.push(name)) return {};
  const Value weights =
      lua_istable(state, -1) ? list_of_numbers(state, lua_gettop(state)) : tensor_value(state, -1, name);
  lua_pop(state, 1);
  return weights;
}

// The smoothing is a traced number like any other number of a hook. With 0, torch.nn.functional.cross_entropy traces no
// smoothing, so neither does this function.
Value smoothed_losses(const Recording& recording, Value logits, Value labels, const ops::CrossEntropyOptions& options,
                      double smoothing) {
  if (smoothing == 0)
    return is_float(labels.dtype()) ? ops::soft_cross_entropy(logits, labels, options.class_weights)
                                    : ops::cross_entropy(logits, labels, options);
  const auto number = [&](double value) {
    return number_operand(recording, {value, false}, {logits.dtype(), {}}, backends::ScalarUse::kOperand);
  };
  const Value kept = number(1 - smoothing), each = number(smoothing / static_cast<double>(logits.shape()[1]));
  if (!is_float(labels.dtype())) return ops::smoothed_cross_entropy(logits, labels, options, kept, each);
  return ops::soft_cross_entropy(logits, ops::add(ops::mul(labels, kept), each), options.class_weights);
}

}  // namespace

int cross_entropy(lua_State* state) {
  const Value logits = tensor_argument(state, 1), labels = tensor_argument(state, 2);
  const Recording& recording = record_here(state);
  const OptionTable given(state, kOptions, {"reduction", "ignore_index", "label_smoothing", "weight"});
  const Reduced how = reduction_of(state, given);
  ops::CrossEntropyOptions options;
  options.ignore_index = given.integer("ignore_index", -100);
  const double smoothing = given.number("label_smoothing", 0);
  RUN_CHECK(smoothing >= 0 && smoothing <= 1, ErrorKind::kRun,
            "cross_entropy: expected label_smoothing in [0, 1], got {}", shown(smoothing));
  RUN_CHECK(!is_float(labels.dtype()) || !given.push("ignore_index"), ErrorKind::kRun,
            "cross_entropy: ignore_index needs labels of classes, but these are probabilities {}; remove it",
            labels.type());
  options.class_weights = weights_of(state, given, "weight");
  const Value in_f32 = recording.forward().autocast.operand(backends::Op::kCrossEntropy, logits);
  const Value losses = smoothed_losses(recording, in_f32, labels, options, smoothing);
  if (how != Reduced::kMean || is_float(labels.dtype())) return push_reduced(state, recording, losses, how);
  const Value weights = ops::label_weights(labels, options), mask = mask_of(state, recording, losses);
  return push_tensor(
      state, mask ? mean_without_padding(losses, weights, mask) : ops::div(ops::sum(losses), ops::sum(weights)));
}

int mse(lua_State* state) {
  return element_loss(state, ops::mse);
}

int l1(lua_State* state) {
  return element_loss(state, ops::l1);
}

int huber(lua_State* state) {
  const OptionTable given(state, kOptions, {"reduction", "delta"});
  const Pair pair = pair_of(state);
  const double delta = given.number("delta", 1.0);
  return push_reduced(state, pair.recording, ops::huber(pair.prediction, pair.target, delta),
                      reduction_of(state, given));
}

int bce_with_logits(lua_State* state) {
  const OptionTable given(state, kOptions, {"reduction", "pos_weight"});
  const Pair pair = pair_of(state);
  const Value weight = weights_of(state, given, "pos_weight");
  const Value losses = weight ? ops::bce_with_logits(pair.prediction, pair.target, weight)
                              : ops::bce_with_logits(pair.prediction, pair.target);
  return push_reduced(state, pair.recording, losses, reduction_of(state, given));
}

}  // namespace runner::lua::losses
