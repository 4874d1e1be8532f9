// Cross-entropy, losses composed of other ops, and the ranks of labels for metrics.
#include "backends/ir/label_rank.h"
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

constexpr Attribute kCrossEntropyAttributes[] = {
    {"ignore_index", Type::kInt, kAnyInt, kAlways, kNameAndValue, "ignore_index={}", ""},
    {"label_smoothing", Type::kF64, kAnyInt, kAlways, kNameAndValue, "label_smoothing={}", ""},
};

void check_cross_entropy(Query q, size_t weights_at) {
  const std::string_view op = name_of(q.op);
  const TensorType &logits = q.operands[0], &labels = q.operands[1];
  check(is_float(logits.dtype) && logits.shape.rank() == 2, "{}: expected logits (N, C) of floats, got {}", op, logits);
  check(labels.dtype == DType::kI64 && labels.shape == Shape{logits.shape[0]}, "{}: expected labels ({}) i64, got {}",
        op, logits.shape[0], labels);
  if (q.operands.size() <= weights_at) return;
  const TensorType wanted{logits.dtype, Shape{logits.shape[1]}};
  check(q.operands[weights_at] == wanted, "{}: expected class weights {}, got {}", op, wanted, q.operands[weights_at]);
}

TensorType cross_entropy_type(Query q) {
  check_cross_entropy(q, 2);
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType cross_entropy_grad_type(Query q) {
  check_cross_entropy(q, 3);
  check_gradient(q.operands[2], {q.operands[0].dtype, q.operands[1].shape}, name_of(q.op));
  return q.operands[0];
}

void cross_entropy_gradient(Value result, Value grad, Grads grads) {
  std::vector<ValueId> operands = {operand(result, 0).id, operand(result, 1).id, grad.id};
  if (grads.size() > 2) operands.push_back(operand(result, 2).id);
  grads[0] = {result.program, result.program->record(Op::kCrossEntropyGrad, operands, copy_of_attrs(result))};
}

Value by_row(Value rows, Value like) {
  return ops::expand(ops::reshape(rows, {rows.shape()[0], 1}), like.shape());
}

// y = grad · (Q · softmax(x) − q), where q are the weighted targets of the classes and Q is their sum.
void cross_entropy_grad_gradient(Value y, Value upstream, Grads grads) {
  const Value logits = operand(y, 0), labels = operand(y, 1), grad = operand(y, 2);
  std::vector<ValueId> operands = {logits.id, labels.id, ops::full_like(grad, 1.0).id};
  if (grads.size() > 3) operands.push_back(operand(y, 3).id);
  const Value each{y.program, y.program->record(Op::kCrossEntropyGrad, operands, copy_of_attrs(y))};
  const int64_t classes[] = {1};
  grads[2] = ops::sum(ops::mul(upstream, each), classes);

  const double smoothing = y.program->attr_f64(y.id, 1);
  ops::CrossEntropyOptions options{.ignore_index = attrs(y)[0], .class_weights = {}};
  Value total = ops::cast(ops::label_weights(labels, options), logits.dtype());
  if (grads.size() > 3) {
    const Value known = total, weights = operand(y, 3);
    options.class_weights = weights;
    total = ops::mul(ops::cast(ops::label_weights(labels, options), logits.dtype()), 1 - smoothing);
    if (smoothing > 0) total = ops::add(total, ops::mul(known, ops::mul(ops::mean(weights), smoothing)));
  }
  const Value softmax = ops::softmax(logits), scaled = ops::mul(upstream, by_row(ops::mul(grad, total), logits));
  const Value mean = ops::sum(ops::mul(scaled, softmax), classes);
  grads[0] = ops::mul(softmax, ops::sub(scaled, by_row(mean, logits)));
}

TensorType label_rank_type(Query q) {
  const TensorType &x = q.operands[0], &labels = q.operands[1];
  check(is_float(x.dtype) && x.shape.rank() >= 1 && x.shape.back() > 0,
        "label_rank: expected floats (…, N) with N of at least 1, got {}", x);
  const Shape rows = x.shape.without(x.shape.rank() - 1);
  check(labels.dtype == DType::kI64 && labels.shape == rows, "label_rank: expected labels {} i64, got {}", rows,
        labels);
  return append_axis(DType::kI64, rows, kLabelRankColumns);
}

}  // namespace

// (logits (N, C), labels (N) i64 [, class_weights (C)]) -> (N).
constexpr OpDef kCrossEntropy = row_op(RowDef{
    .attributes = Attributes(kCrossEntropyAttributes),
    .infer = cross_entropy_type,
    .gradient = cross_entropy_gradient,
    .flops = flops<5, 0>,
    .xla_count = xla_count<kLogSumExp.plus(1, 1, 1), 0>,  // log_softmax, and the sign of the label's
    .batch = BatchRule::kGrows,
    .aten = "aten::cross_entropy_loss",
});

// (logits, labels, grad (N) [, class_weights]) -> (N, C).
constexpr OpDef kCrossEntropyGrad = row_op(RowDef{
    .attributes = Attributes(kCrossEntropyAttributes),
    .infer = cross_entropy_grad_type,
    .gradient = cross_entropy_grad_gradient,
    .flops = flops<5, 0>,
    .xla_count = xla_count<kLogSumExp.plus(3), 0>,  // softmax − one-hot, times the row's gradient
    .batch = BatchRule::kGrows,
    .aten = "aten::cross_entropy_loss_backward",
});

// (x (…, N), labels (…) i64) -> (…, 3) i64.
constexpr OpDef kLabelRank = row_op(RowDef{
    .attributes = Attributes(),
    .infer = label_rank_type,
    .gradient = kNoGradient,
    .flops = flops<3, 0>,
    // As argmax, and a comparison and an addition for the rank.
    .xla_count = xla_count<XlaRates{.flops = 8, .flops_of_row = -6}, 0>,
    .batch = BatchRule::kGrows,
    .aten = "runner::label_rank",  // no single op of PyTorch
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options) {
  const int64_t attrs[] = {options.ignore_index, pack_f64(options.label_smoothing)};
  if (options.class_weights) return record(Op::kCrossEntropy, {logits, labels, options.class_weights}, attrs);
  return record(Op::kCrossEntropy, {logits, labels}, attrs);
}

Value smoothed_cross_entropy(Value logits, Value labels, CrossEntropyOptions options, Value kept, Value each) {
  options.label_smoothing = 0;
  const Value of_labels = cross_entropy(logits, labels, options);
  options.label_smoothing = 1;
  const Value of_classes = mul(cross_entropy(logits, labels, options), static_cast<double>(logits.shape()[1]));
  return add(mul(of_labels, kept), mul(of_classes, each));
}

Value soft_cross_entropy(Value logits, Value probabilities, Value class_weights) {
  RUN_CHECK(
      logits.type() == probabilities.type() && logits.shape().rank() == 2, ErrorKind::kRun,
      "cross_entropy: expected logits (N, C) and labels (N) i64, or probabilities of the classes as labels, (N, C) "
      "of the dtype of the logits; got {} and {}",
      logits.type(), probabilities.type());
  const Value weighted = class_weights ? mul(probabilities, class_weights) : probabilities;
  const int64_t classes[] = {1};
  return neg(sum(mul(weighted, log_softmax(logits)), classes));
}

Value label_weights(Value labels, const CrossEntropyOptions& options) {
  const Value skipped = eq(labels, full_like(labels, static_cast<double>(options.ignore_index)));
  Value weights{labels.program, labels.program->constant(1.0, {DType::kF32, labels.shape()})};
  if (const Value classes = options.class_weights) {
    // Labels to skip may be outside the table: look up class 0 for them.
    const Value known = where(skipped, full_like(labels, 0.0), labels);
    weights = reshape(embedding(reshape(classes, Shape{classes.shape()[0], 1}), known), labels.shape());
  }
  return where(skipped, full_like(weights, 0.0), weights);
}

Value label_rank(Value x, Value labels) {
  return record(Op::kLabelRank, {x, labels});
}

Value mse(Value prediction, Value target) {
  const Value difference = sub(prediction, target);
  return mul(difference, difference);
}

Value l1(Value prediction, Value target) {
  return abs(sub(prediction, target));
}

// e²/2 for |e| ≤ δ, else δ (|e| − δ/2); torch.nn.HuberLoss.
Value huber(Value prediction, Value target, double delta) {
  const Value error = sub(prediction, target);
  const Value size = abs(error);
  const Value inside = mul(mul(error, error), 0.5);
  const Value outside = mul(sub(size, 0.5 * delta), delta);
  return where(le(size, full_like(size, delta)), inside, outside);
}

// max(x, 0) − x y + log(1 + exp(−|x|)). At x = 0 the maximum has slope ½ and |x| slope 0: the sum's is σ(0) − y.
Value bce_with_logits(Value logits, Value target) {
  const Value tail = softplus_tail(logits);
  return add(sub(maximum(logits, full_like(logits, 0.0)), mul(logits, target)), tail);
}

// (1 − y) x + (1 + (w − 1) y) (max(−x, 0) + log(1 + exp(−|x|))): the positive term, y log σ(x), times w.
Value bce_with_logits(Value logits, Value target, Value pos_weight) {
  const Value weights = expand(pos_weight, logits.shape());
  const Value of_log = add(mul(sub(weights, 1.0), target), 1.0);
  const Value log_one_plus = add(maximum(neg(logits), full_like(logits, 0.0)), softplus_tail(logits));
  const Value linear = mul(sub(1.0, target), logits);
  return add(linear, mul(of_log, log_one_plus));
}

}  // namespace runner::backends::ops
