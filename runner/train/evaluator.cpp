#include "runner/train/evaluator.h"

#include "runner/data/loader.h"

namespace runner::train {

Evaluator::Evaluator(Trainer& trainer, const data::Dataset& dataset, const schema::Recipe& recipe)
    : trainer_(trainer),
      dataset_(dataset),
      none_yet_(recipe.eval.metrics, trainer.encoding().label_kind, trainer.encoding().outputs),
      plan_(data::eval_plan(recipe, dataset.size())) {}

template <class Each>
void Evaluator::each_batch(const Each& each) {
  data::Loader loader(dataset_, plan_, {.shuffle = false, .epochs = 1, .prefetch = 0});
  const auto outputs = static_cast<size_t>(trainer_.encoding().outputs);
  for (int64_t step = 0; step < plan_.steps_per_epoch(); ++step) {
    const data::Batch& batch = loader.next();
    const auto size = static_cast<size_t>(batch.size);
    outputs_.resize(size * outputs);
    each(batch, size);
  }
}

std::map<std::string, double> Evaluator::run() {
  Metrics metrics = none_yet_;
  MetricSums of_hook;
  each_batch([&](const data::Batch& batch, size_t) {
    trainer_.evaluate(batch, evaluated_);
    metrics.add({.outputs = evaluated_.outputs,
                 .classes = evaluated_.classes,
                 .targets = evaluated_.targets,
                 .mask = batch.weights,
                 .losses = evaluated_.losses,
                 .weights = evaluated_.weights});
    for (const auto& [name, sum] : evaluated_.metrics) {
      of_hook[name].sum += sum.sum;
      of_hook[name].weight += sum.weight;
    }
  });
  std::map<std::string, double> result = metrics.result();
  for (const auto& [name, sum] : of_hook) result[name] = sum.sum / sum.weight;
  return result;
}

std::vector<float> Evaluator::predict() {
  std::vector<float> all;
  each_batch([&](const data::Batch& batch, size_t) {
    trainer_.predict(batch, outputs_);
    all.insert(all.end(), outputs_.begin(), outputs_.end());
  });
  return all;
}

}  // namespace runner::train
