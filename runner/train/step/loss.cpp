#include "runner/train/step/loss.h"

#include "backends/ir/ops.h"
#include "runner/train/step/digest.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::Value;

Value ones(Value like) {
  return ops::full_like(like, 1.0);
}

// Bit-identical to nn.cross_entropy of hooks.
Value smoothed_losses(Value logits, Value labels, const ops::CrossEntropyOptions& options, double smoothing) {
  if (smoothing == 0) return ops::cross_entropy(logits, labels, options);
  const auto constant = [&](double value) {
    return Value{logits.program, logits.program->constant(value, {logits.dtype(), {}})};
  };
  return ops::smoothed_cross_entropy(logits, labels, options, constant(1 - smoothing),
                                     constant(smoothing / static_cast<double>(logits.shape()[1])));
}

SampleLosses cross_entropy(const schema::TrainSpec& spec, Value logits, Value labels) {
  ops::CrossEntropyOptions options;
  if (spec.ignore_index) options.ignore_index = *spec.ignore_index;
  if (!spec.class_weights.empty()) {
    RUN_CHECK(std::ssize(spec.class_weights) == logits.shape()[1], ErrorKind::kRecipe,
              "train.class_weights: expected {1} weights, one per class, got {0}", spec.class_weights.size(),
              logits.shape()[1]);
    options.class_weights = ops::vector(*logits.program, spec.class_weights);
  }
  const Value losses = smoothed_losses(logits, labels, options, spec.label_smoothing);
  const bool alike = !options.class_weights && !spec.ignore_index;
  return {losses, alike ? ones(losses) : ops::label_weights(labels, options)};
}

Value per_element(const schema::TrainSpec& spec, schema::Loss loss, Value outputs, Value targets) {
  switch (loss) {
    case schema::Loss::kL1: return ops::l1(outputs, targets);
    case schema::Loss::kHuber: return ops::huber(outputs, targets, spec.huber_delta);
    case schema::Loss::kBceWithLogits: return ops::bce_with_logits(outputs, targets);
    default: return ops::mse(outputs, targets);
  }
}

// Rejects options of cross_entropy. With an explicit other loss, the recipe reader rejects them.
void refuse_options_of_classes(const schema::TrainSpec& spec) {
  const char* ignored = !spec.class_weights.empty()     ? "class_weights"
                        : spec.label_smoothing != 0     ? "label_smoothing"
                        : spec.ignore_index.has_value() ? "ignore_index"
                                                        : nullptr;
  RUN_CHECK(ignored == nullptr, ErrorKind::kRecipe,
            "train.{} needs classes, but the labels of data.train are numbers; remove it", ignored);
}

}  // namespace

uint64_t form_of(const backends::Shape& loss) {
  uint64_t form = static_cast<uint64_t>(loss.rank());
  for (int axis = 1; axis < loss.rank(); ++axis) form = mixed(form, static_cast<uint64_t>(loss[axis]));
  return form;
}

schema::Loss resolve_loss(const schema::TrainSpec& spec, data::LabelKind labels) {
  const bool classes = labels == data::LabelKind::kClass;
  const schema::Loss declared = spec.loss;
  if (declared == schema::Loss::kAuto) {
    if (!classes) refuse_options_of_classes(spec);
    return classes ? schema::Loss::kCrossEntropy : schema::Loss::kMse;
  }
  RUN_CHECK(classes == (declared == schema::Loss::kCrossEntropy), ErrorKind::kRecipe, "train.loss: {}",
            classes ? "the labels are classes, which need cross_entropy"
                    : "the labels are targets, which need mse, l1, huber or bce_with_logits");
  return declared;
}

schema::TrainSpec plain_loss(schema::TrainSpec spec) {
  spec.class_weights.clear();
  spec.label_smoothing = 0;
  return spec;
}

bool is_plain(const schema::TrainSpec& spec) {
  return spec.class_weights.empty() && spec.label_smoothing == 0;
}

SampleLosses sample_losses(const schema::TrainSpec& spec, schema::Loss loss, Value outputs, Value labels) {
  if (loss == schema::Loss::kCrossEntropy) return cross_entropy(spec, outputs, labels);
  const Value targets = ops::reshape(labels, outputs.shape());
  const int64_t over_targets[] = {1};
  const Value losses = ops::mean(per_element(spec, loss, outputs, targets), over_targets);
  return {losses, ones(losses)};
}

}  // namespace runner::train
