#include "runner/train/step/step_specification.h"

#include <optional>

#include "runner/train/step/loss_scaler.h"

namespace runner::train {
namespace {

enum RecordedKind : int64_t { kTrainingStep, kForwardStep, kReadStep, kRegion };

void append_words(backends::StepSpecification& words, const std::optional<double>& number) {
  words.push_back(number.has_value());
  words.push_back(backends::pack_f64(number.value_or(0)));
}

// Appends all hyperparameters except the rate. A new field is a compile error here. Hook rules are not compared: there
// is one per group, and the order of groups is fixed.
void append_words(backends::StepSpecification& words, const optim::Rule& rule) {
  words.push_back(static_cast<int64_t>(rule.type));
  const auto& [lr, weight_decay, momentum, dampening, nesterov, beta1, beta2, eps, amsgrad, alpha, centered, lr_decay,
               initial_accumulator_value] = rule.hyper;
  static_cast<void>(lr);
  for (const double number :
       {weight_decay, momentum, dampening, beta1, beta2, eps, alpha, lr_decay, initial_accumulator_value})
    words.push_back(backends::pack_f64(number));
  for (const bool flag : {nesterov, amsgrad, centered}) words.push_back(flag);
  const optim::WeightAverage average = rule.average.value_or(optim::WeightAverage{.decay = std::nullopt, .start = 0});
  append_words(words, average.decay);
  words.insert(words.end(), {average.start, average.every});
}

void append_words(backends::StepSpecification& words, const std::vector<StepBuilder::Metric>& metrics) {
  for (const StepBuilder::Metric& metric : metrics) {
    words.push_back(metric.sum);
    words.push_back(metric.weight);
  }
}

}  // namespace

backends::StepSpecification training_specification(const StepBuilder& builder, const StepBuilder::Recorded& recorded,
                                                   const StepShape& shape) {
  const schema::Recipe& recipe = builder.recipe();
  backends::StepSpecification words = {
      kTrainingStep,    shape.first,      shape.last,  recorded.losses,
      recorded.weights, recorded.counted, shape.parts, static_cast<int64_t>(recipe.train.on_nan)};
  append_words(words, recipe.train.clip_grad_norm);
  words.push_back(reports_grad_norm(recipe));
  append_words(words, recipe.train.clip_grad_value);
  if (first_scale(recipe)) {
    for (const double number : {recipe.scaler.growth_factor, recipe.scaler.backoff_factor})
      words.push_back(backends::pack_f64(number));
    words.push_back(recipe.scaler.growth_interval);
  }
  words.insert(words.end(), recorded.parameters.begin(), recorded.parameters.end());
  words.insert(words.end(), recorded.buffers.begin(), recorded.buffers.end());
  append_words(words, recorded.metrics);
  for (const nn::FlatBuffer& buffer : builder.model().parameters.buffers()) {
    words.push_back(buffer.group >= 0);
    if (buffer.group >= 0) append_words(words, builder.optimizers().rule(buffer.group));
    // With device-side counters the rate is part of the step, because the device looks up only its factor.
    if (buffer.group >= 0 && builder.layout().has(ArrayRole::kClock))
      words.push_back(backends::pack_f64(builder.optimizers().rule(buffer.group).hyper.lr));
  }
  return words;
}

backends::StepSpecification forward_specification(const StepBuilder::Recorded& recorded, bool labelled, bool first) {
  backends::StepSpecification words = {kForwardStep,
                                       labelled,
                                       first,
                                       recorded.outputs,
                                       recorded.targets,
                                       recorded.losses,
                                       recorded.weights,
                                       recorded.plain_losses,
                                       recorded.plain_weights};
  append_words(words, recorded.metrics);
  return words;
}

backends::StepSpecification read_specification(backends::ValueId value) {
  return {kReadStep, value};
}

backends::StepSpecification region_specification() {
  return {kRegion};
}

}  // namespace runner::train
