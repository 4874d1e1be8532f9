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
  each_batch([&](const data::Batch& batch, size_t size) {
    losses_.resize(size);
    weights_.resize(size);
    trainer_.evaluate(batch, outputs_, losses_, weights_);
    metrics.add({.outputs = outputs_,
                 .classes = batch.classes,
                 .targets = batch.targets,
                 .mask = batch.weights,
                 .losses = losses_,
                 .weights = weights_});
  });
  return metrics.result();
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
