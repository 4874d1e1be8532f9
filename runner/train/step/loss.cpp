#include "runner/train/step/loss.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "runner/data/labels.h"
#include "runner/train/step/digest.h"
#include "schema/base/error.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/recipe/losses.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::Value;

Value ones(Value like) {
  return ops::full_like(like, 1.0);
}

// Bit-identical to nn.cross_entropy of hooks, as is soft_losses().
Value smoothed_losses(Value logits, Value labels, const ops::CrossEntropyOptions& options, double smoothing) {
  if (smoothing == 0) return ops::cross_entropy(logits, labels, options);
  const auto constant = [&](double value) {
    return Value{logits.program, logits.program->constant(value, {logits.dtype(), {}})};
  };
  return ops::smoothed_cross_entropy(logits, labels, options, constant(1 - smoothing),
                                     constant(smoothing / static_cast<double>(logits.shape()[1])));
}

// ---- losses of classes ----------------------------------------------------------------------------------------------

Value soft_losses(Value logits, Value probabilities, Value class_weights, double smoothing) {
  if (smoothing > 0)
    probabilities =
        ops::add(ops::mul(probabilities, 1 - smoothing), smoothing / static_cast<double>(logits.shape()[1]));
  return ops::soft_cross_entropy(logits, probabilities, class_weights);
}

SampleLosses cross_entropy(const LossSpec& spec, Value logits, Value labels) {
  ops::CrossEntropyOptions options;
  if (spec.ignored_label) options.ignore_index = *spec.ignored_label;
  if (!spec.class_weights.empty()) options.class_weights = ops::vector(*logits.program, spec.class_weights);
  if (is_float(labels.dtype())) {
    const Value losses = soft_losses(logits, labels, options.class_weights, spec.label_smoothing);
    return {losses, ones(losses)};
  }
  const Value losses = smoothed_losses(logits, labels, options, spec.label_smoothing);
  const bool alike = !options.class_weights && !spec.ignored_label;
  return {losses, alike ? ones(losses) : ops::label_weights(labels, options)};
}

// ---- losses of targets, element by element --------------------------------------------------------------------------

Value mse(const LossSpec&, Value outputs, Value targets) {
  return ops::mse(outputs, targets);
}

Value l1(const LossSpec&, Value outputs, Value targets) {
  return ops::l1(outputs, targets);
}

Value huber(const LossSpec& spec, Value outputs, Value targets) {
  return ops::huber(outputs, targets, spec.huber_delta);
}

Value bce_with_logits(const LossSpec& spec, Value outputs, Value targets) {
  if (spec.pos_weight.empty()) return ops::bce_with_logits(outputs, targets);
  return ops::bce_with_logits(outputs, targets, ops::vector(*outputs.program, spec.pos_weight));
}

template <Value per_element(const LossSpec&, Value outputs, Value targets)>
SampleLosses mean_over_targets(const LossSpec& spec, Value outputs, Value labels) {
  const Value targets = ops::reshape(labels, outputs.shape());
  const int64_t over_targets[] = {1};
  const Value losses = ops::mean(per_element(spec, outputs, targets), over_targets);
  return {losses, ones(losses)};
}

// ---- the table ------------------------------------------------------------------------------------------------------

// Computes sample_losses(). Facts about the labels of each loss: schema/recipe/losses.h.
using Compute = SampleLosses (*)(const LossSpec& spec, Value outputs, Value labels);

constexpr schema::ChoiceRow<schema::Loss, Compute> kLosses[] = {
    {schema::Loss::kCrossEntropy, cross_entropy},
    {schema::Loss::kMse, mean_over_targets<mse>},
    {schema::Loss::kL1, mean_over_targets<l1>},
    {schema::Loss::kHuber, mean_over_targets<huber>},
    {schema::Loss::kBceWithLogits, mean_over_targets<bce_with_logits>},
};
constexpr size_t kAfterAuto = 1;
static_assert(schema::has_all_choices(kLosses, kAfterAuto));

// ---- from a recipe --------------------------------------------------------------------------------------------------

// Rejects options of losses of classes. With an explicit other loss, the recipe reader rejects them.
void refuse_options_of_classes(const schema::TrainSpec& spec) {
  const char* ignored = !spec.class_weights.empty()     ? "class_weights"
                        : spec.label_smoothing != 0     ? "label_smoothing"
                        : spec.ignore_index.has_value() ? "ignore_index"
                                                        : nullptr;
  RUN_CHECK(ignored == nullptr, ErrorKind::kRecipe,
            "train.{} needs classes, but the labels of data.train are numbers; remove it", ignored);
}

std::vector<double> weights_by_name(const schema::ClassWeights& spec, const data::Encoding& encoding) {
  std::vector<double> weights(static_cast<size_t>(encoding.outputs), 1);
  const std::vector<std::string> names = encoding.classes();
  for (const auto& [name, weight] : spec.by_name) {
    const auto found = std::ranges::find(names, name);
    RUN_CHECK(found != names.end(), ErrorKind::kRecipe, "train.class_weights: unknown class {}; {}", in_quotes(name),
              schema::did_you_mean(name, names, "the classes are " + data::class_list(encoding)));
    weights[static_cast<size_t>(found - names.begin())] = weight;
  }
  return weights;
}

// Weights by class; empty if the recipe has none.
std::vector<double> class_weights(const schema::ClassWeights& spec, const data::Encoding& encoding) {
  if (spec.balanced) return encoding.balanced_weights;
  if (!spec.by_name.empty()) return weights_by_name(spec, encoding);
  RUN_CHECK(spec.empty() || std::ssize(spec.by_class) == encoding.outputs, ErrorKind::kRecipe,
            "train.class_weights: expected {1} weights, one per class in the order {2}, got {0}", spec.by_class.size(),
            encoding.outputs, data::class_list(encoding));
  return spec.by_class;
}

}  // namespace

uint64_t loss_shape_digest(const backends::Shape& loss) {
  uint64_t form = static_cast<uint64_t>(loss.rank());
  for (int axis = 1; axis < loss.rank(); ++axis) form = mixed(form, static_cast<uint64_t>(loss[axis]));
  return form;
}

LossSpec loss_of(const schema::TrainSpec& spec, const data::Encoding& encoding) {
  const bool classes = encoding.label_kind == data::LabelKind::kClass;
  LossSpec loss{.loss = spec.loss, .label_smoothing = spec.label_smoothing, .huber_delta = spec.huber_delta};
  if (spec.loss == schema::Loss::kAuto) {
    if (!classes) refuse_options_of_classes(spec);
    loss.loss = classes ? schema::Loss::kCrossEntropy : schema::Loss::kMse;
  }
  const schema::Labels labels = classes ? schema::Labels::kClasses : schema::Labels::kNumbers;
  RUN_CHECK(schema::facts_of(loss.loss).labels == labels, ErrorKind::kRecipe,
            "train.loss: the labels are {}, which need {}", classes ? "classes" : "targets",
            schema::losses_for(labels));
  RUN_CHECK(spec.pos_weight.size() <= 1 || std::ssize(spec.pos_weight) == encoding.outputs, ErrorKind::kRecipe,
            "train.pos_weight: expected one number{1}, got {0}", spec.pos_weight.size(),
            encoding.outputs == 1 ? "" : fmt::format(" or {}, one per target", encoding.outputs));
  loss.pos_weight = spec.pos_weight;
  if (!classes) return loss;
  loss.class_weights = class_weights(spec.class_weights, encoding);
  loss.ignored_label = encoding.ignored_label;
  return loss;
}

bool may_weigh_nothing(const schema::TrainSpec& spec, const data::Encoding& encoding) {
  const schema::ClassWeights& weights = spec.class_weights;
  return encoding.ignored_label.has_value() || std::ranges::find(weights.by_class, 0.0) != weights.by_class.end() ||
         std::ranges::any_of(weights.by_name, [](const auto& named) { return named.second == 0; });
}

LossSpec LossSpec::plain() const {
  LossSpec plain = *this;
  plain.class_weights.clear();
  plain.label_smoothing = 0;
  plain.pos_weight.clear();
  return plain;
}

SampleLosses sample_losses(const LossSpec& spec, Value outputs, Value labels) {
  return schema::value_of(kLosses, spec.loss)(spec, outputs, labels);
}

}  // namespace runner::train
