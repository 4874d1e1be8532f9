#include "runner/train/evaluator.h"

#include "runner/data/loader.h"
#include "schema/error.h"

namespace runner::train {

Evaluator::Evaluator(Trainer& trainer, const data::Dataset& dataset, const schema::Recipe& recipe, Hooks* hooks)
    : trainer_(trainer),
      dataset_(dataset),
      none_yet_(recipe.eval.metrics, trainer.encoding().label_kind, trainer.encoding().outputs),
      plan_(data::eval_plan(recipe, dataset.size())),
      with_metrics_(has(hooks, HookEntry::kMetrics) ? hooks : nullptr) {}

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

// Appends what trainer_.evaluate() has left of a batch.
void Evaluator::gather(const data::Batch& batch, EvaluatedSet& set) const {
  const auto width = static_cast<size_t>(set.outputs);
  const auto append_row = [&](std::vector<float>& rows, const std::vector<float>& from, size_t row) {
    const auto begin = from.begin() + static_cast<ptrdiff_t>(row * width);
    rows.insert(rows.end(), begin, begin + static_cast<ptrdiff_t>(width));
  };
  for (size_t i = 0; i < batch.weights.size(); ++i) {
    if (batch.weights[i] == 0) continue;
    ++set.samples;
    append_row(set.predictions, evaluated_.outputs, i);
    if (trainer_.encoding().label_kind == data::LabelKind::kClass) {
      set.classes.push_back(evaluated_.classes[i]);
    } else {
      append_row(set.targets, evaluated_.targets, i);
    }
  }
}

std::map<std::string, double> Evaluator::run() {
  Metrics metrics = none_yet_;
  EvaluatedSet set;
  set.outputs = trainer_.encoding().outputs;
  MetricSums of_hook;
  each_batch([&](const data::Batch& batch, size_t) {
    trainer_.evaluate(batch, evaluated_);
    metrics.add({.outputs = evaluated_.outputs,
                 .classes = evaluated_.classes,
                 .targets = evaluated_.targets,
                 .mask = batch.weights,
                 .losses = evaluated_.losses,
                 .weights = evaluated_.weights});
    if (with_metrics_ != nullptr) gather(batch, set);
    for (const auto& [name, sum] : evaluated_.metrics) {
      of_hook[name].sum += sum.sum;
      of_hook[name].weight += sum.weight;
    }
  });
  std::map<std::string, double> result = metrics.result();
  for (const auto& [name, sum] : of_hook) result[name] = sum.sum / sum.weight;
  if (with_metrics_ == nullptr) return result;
  for (const auto& [name, value] : with_metrics_->metrics(set)) {
    RUN_CHECK(!result.contains(name), ErrorKind::kRun,
              "metrics.{}: evaluation_step returns a metric of that name as well; rename one", name);
    result[name] = value;
  }
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
