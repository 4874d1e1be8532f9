#include <string>

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

Reduced reduction_of(lua_State* state, const Options& options) {
  const std::string name = options.text("reduction", "mean");
  if (name == "none") return Reduced::kNone;
  if (name == "sum") return Reduced::kSum;
  RUN_CHECK(name == "mean", ErrorKind::kRun, "{}: unknown reduction '{}'; expected none, mean or sum", called_as(state),
            name);
  return Reduced::kMean;
}

int push_reduced(lua_State* state, Value losses, Reduced how) {
  if (how == Reduced::kNone) return push_tensor(state, losses);
  return push_tensor(state, how == Reduced::kSum ? ops::sum(losses) : ops::mean(losses));
}

struct Pair {
  Value prediction, target;
};
Pair pair_of(lua_State* state) {
  const Value x = tensor_argument(state, 1), y = tensor_argument(state, 2);
  record_here(state);
  RUN_CHECK(x.shape() == y.shape(), ErrorKind::kRun,
            "{}: expected equal shapes of prediction and target, got {} and {}", called_as(state), x.type(), y.type());
  return {Autocast::raise(x), Autocast::raise(y)};
}

template <class Loss>
int element_loss(lua_State* state, const Loss& loss) {
  const Options given(state, kOptions, {"reduction"});
  const Pair pair = pair_of(state);
  return push_reduced(state, loss(pair.prediction, pair.target), reduction_of(state, given));
}

// The smoothing is a traced number like any other number of a hook. With 0, torch.nn.functional.cross_entropy traces no
// smoothing, so neither does this function.
Value smoothed_losses(const Recording& recording, Value logits, Value labels, const ops::CrossEntropyOptions& options,
                      double smoothing) {
  if (smoothing == 0) return ops::cross_entropy(logits, labels, options);
  const auto number = [&](double value) {
    return number_operand(recording, {value, false}, {logits.dtype(), {}}, backends::ScalarUse::kOperand);
  };
  return ops::smoothed_cross_entropy(logits, labels, options, number(1 - smoothing),
                                     number(smoothing / static_cast<double>(logits.shape()[1])));
}

}  // namespace

int cross_entropy(lua_State* state) {
  const Value logits = tensor_argument(state, 1), labels = tensor_argument(state, 2);
  const Recording& recording = record_here(state);
  const Options given(state, kOptions, {"reduction", "ignore_index", "label_smoothing", "weight"});
  const Reduced how = reduction_of(state, given);
  ops::CrossEntropyOptions options;
  options.ignore_index = given.integer("ignore_index", -100);
  const double smoothing = given.number("label_smoothing", 0);
  RUN_CHECK(smoothing >= 0 && smoothing <= 1, ErrorKind::kRun,
            "cross_entropy: expected label_smoothing in [0, 1], got {}", shown(smoothing));
  if (given.push("weight")) {
    options.class_weights =
        lua_istable(state, -1) ? list_of_numbers(state, lua_gettop(state)) : tensor_value(state, -1, "weight");
    lua_pop(state, 1);
  }
  const Value in_f32 = recording.forward().autocast.operand(backends::Op::kCrossEntropy, logits);
  const Value losses = smoothed_losses(recording, in_f32, labels, options, smoothing);
  if (how != Reduced::kMean) return push_reduced(state, losses, how);
  return push_tensor(state, ops::div(ops::sum(losses), ops::sum(ops::label_weights(labels, options))));
}

int mse(lua_State* state) {
  return element_loss(state, ops::mse);
}

int l1(lua_State* state) {
  return element_loss(state, ops::l1);
}

int huber(lua_State* state) {
  const Options given(state, kOptions, {"reduction", "delta"});
  const Pair pair = pair_of(state);
  const double delta = given.number("delta", 1.0);
  return push_reduced(state, ops::huber(pair.prediction, pair.target, delta), reduction_of(state, given));
}

int bce_with_logits(lua_State* state) {
  return element_loss(state, ops::bce_with_logits);
}

}  // namespace runner::lua::losses
