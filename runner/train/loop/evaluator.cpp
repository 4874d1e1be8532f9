#include "runner/train/loop/evaluator.h"

#include <algorithm>
#include <utility>

#include "runner/data/loader.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/step/gathering.h"
#include "schema/base/error.h"

namespace runner::train {

namespace {

constexpr int64_t kCompareEvery = 8;  // batches: makes the cost of comparing graphs negligible

// Gathers the rows of all ranks, of `width` values each, in the order of a single process: step by step, rank by rank.
// Collective.
template <class T>
std::vector<T> in_order(const std::vector<T>& mine, size_t width, const data::DataPlan& plan,
                        backends::ProcessGroup& ranks, const backends::Site& site) {
  const std::vector<std::vector<T>> all = gather_values(mine, ranks, site);
  std::vector<T> rows;
  std::vector<size_t> taken(all.size());
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const size_t count = static_cast<size_t>(plan.slice(static_cast<int64_t>(rank), step).real) * width;
      const auto from = all[rank].begin() + static_cast<ptrdiff_t>(taken[rank]);
      rows.insert(rows.end(), from, from + static_cast<ptrdiff_t>(count));
      taken[rank] += count;
    }
  }
  return rows;
}

// Appends the outputs of the tokens that are no padding. `values`: (batch.size, T, outputs). `first`: sample of the
// batch.
void add_tokens(Outputs& all, std::span<const float> values, const data::Batch& batch, const data::Encoding& encoding,
                int64_t first) {
  const int64_t length = encoding.label_width(batch.length);
  all.length = std::max(all.length, length);
  const std::vector<data::SampleInput> inputs = encoding.inputs();
  const auto mask = std::ranges::find(inputs, data::kMaskName, &data::SampleInput::name);
  std::span<const int64_t> is_shown;
  if (mask != inputs.end())
    is_shown = data::values_of<int64_t>(batch.inputs[static_cast<size_t>(mask - inputs.begin())]);
  for (int64_t i = 0; i < batch.size * length; ++i) {
    if (!is_shown.empty() && is_shown[static_cast<size_t>(i)] == 0) continue;
    all.tokens.push_back({.sample = first + i / length, .position = i % length});
    const auto of_token = values.begin() + i * encoding.outputs;
    all.values.insert(all.values.end(), of_token, of_token + encoding.outputs);
  }
}

}  // namespace

data::DataPlan evaluation_plan(const StepBuilder& builder, int64_t samples, int64_t ranks, Padding padding) {
  data::PlanSpec spec = data::eval_plan(builder.recipe(), samples);
  spec.processes = ranks;
  spec.pad_last =
      padding == Padding::kHookLoop ? builder.recipe().eval.pad_last.value_or(false) : builder.pads_evaluations();
  return data::DataPlan(spec);
}

std::optional<data::DataPlan> evaluation_plan(const StepBuilder& builder, const data::Data& data, int64_t ranks) {
  if (!data.eval) return std::nullopt;
  return evaluation_plan(builder, data.eval->size(), ranks);
}

data::LoaderSpec evaluation_loader(int64_t rank, bool never_empty) {
  return {.shuffle = false, .rank = rank, .epochs = 1, .prefetch = 0, .never_empty = never_empty};
}

Evaluator::Evaluator(Trainer& trainer, const data::Dataset& dataset, const schema::Recipe& recipe, Hooks* hooks,
                     backends::ProcessGroup* ranks)
    : trainer_(trainer),
      dataset_(dataset),
      ignored_label_(trainer.encoding().ignored_label),
      none_yet_({.requested = recipe.eval.metrics,
                 .labels = trainer.encoding().label_kind,
                 .outputs = trainer.encoding().outputs,
                 .ignored_label = ignored_label_,
                 .are_tokens = trainer.encoding().has_token_labels()}),
      plan_(evaluation_plan(trainer.builder(), dataset.size(), ranks != nullptr ? ranks->size() : 1)),
      hooks_(hooks),
      with_metrics_(has(hooks, HookEntry::kMetrics)),
      ranks_(ranks),
      newest_(none_yet_) {
  RUN_CHECK(!with_metrics_ || !trainer.encoding().has_token_labels(), ErrorKind::kRecipe,
            "`metrics` of a hook needs one label per sample, but text has one per token; return metrics from "
            "evaluation_step instead");
}

// Ranks compare their graphs before they exchange metrics, so that an error names the cause.
template <class Each>
void Evaluator::each_batch(const Each& each, const std::function<bool()>& interrupted) {
  const int64_t rank = ranks_ != nullptr ? ranks_->rank() : 0;
  // A hook may use collectives in any batch.
  data::Loader loader(dataset_, plan_, evaluation_loader(rank, /*never_empty=*/hooks_ != nullptr));
  for (int64_t step = 0; step < plan_.steps_per_epoch(); ++step) {
    if (step > 0 && step % kCompareEvery == 0) trainer_.steps().compare_graphs();
    RUN_CHECK(!interrupted || !interrupted(), ErrorKind::kInterrupted, "interrupted during the evaluation at step {}",
              trainer_.counters.steps);
    const data::Batch& batch = loader.next();
    trainer_.marks().begin_batch(/*training=*/false);
    if (!batch.weighs()) {
      trainer_.steps().record(batch, /*training=*/false);
      continue;
    }
    trainer_.accumulation.each_micro_batch(batch, [&](const data::Batch& part) {
      each(part);
      return true;
    });
  }
  trainer_.steps().compare_graphs();
  trainer_.marks().end_batches(/*training=*/false);
}

// Appends the results of Forward::evaluate() for a batch.
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

EvaluatedSet Evaluator::merged(const EvaluatedSet& mine) const {
  const auto width = static_cast<size_t>(mine.outputs);
  EvaluatedSet all;
  all.samples = plan_.samples_per_epoch();
  all.outputs = mine.outputs;
  all.predictions = in_order(mine.predictions, width, plan_, *ranks_, site("predictions"));
  if (trainer_.encoding().label_kind == data::LabelKind::kClass) {
    all.classes = in_order(mine.classes, 1, plan_, *ranks_, site("targets"));
  } else {
    all.targets = in_order(mine.targets, width, plan_, *ranks_, site("targets"));
  }
  return all;
}

void Evaluator::score(const data::Batch& batch, Metrics& metrics) const {
  metrics.add({.classes = evaluated_.classes,
               .ranks = evaluated_.ranks,
               .outputs = evaluated_.outputs,
               .targets = evaluated_.targets,
               .mask = batch.weights,
               .losses = evaluated_.losses,
               .weights = evaluated_.weights,
               .plain_losses = evaluated_.plain_losses,
               .plain_weights = evaluated_.plain_weights,
               .own_loss = evaluated_.own_loss,
               .labels = static_cast<size_t>(trainer_.encoding().label_width(batch.length))});
}

// Removes the samples whose label is train.ignore_index.
void Evaluator::leave_out_ignored(EvaluatedSet& set) const {
  if (!ignored_label_) return;
  const auto width = static_cast<size_t>(set.outputs);
  size_t kept = 0;
  for (size_t i = 0; i < set.classes.size(); ++i) {
    if (set.classes[i] == *ignored_label_) continue;
    set.classes[kept] = set.classes[i];
    std::copy_n(set.predictions.begin() + static_cast<ptrdiff_t>(i * width), width,
                set.predictions.begin() + static_cast<ptrdiff_t>(kept++ * width));
  }
  if (set.classes.empty()) return;
  set.classes.resize(kept);
  set.predictions.resize(kept * width);
  set.samples = static_cast<int64_t>(kept);
}

SourceMark Evaluator::line_of_step() const {
  return hooks_ != nullptr ? hooks_->line_of(HookEntry::kEvaluationStep) : SourceMark();
}

std::map<std::string, double> Evaluator::run(const std::function<bool()>& interrupted) {
  Metrics metrics = none_yet_;
  EvaluatedSet set;
  set.outputs = trainer_.encoding().outputs;
  MetricSums of_hook;
  bool first = true;
  trainer_.arrays().share_buffers(site("running statistics"));
  const auto evaluate = [&](const data::Batch& batch) {
    trainer_.forward().evaluate(batch, std::exchange(first, false), evaluated_);
    try {
      score(batch, metrics);
    } catch (const Error& error) {
      throw Error(error).locate(line_of_step());
    }
    if (with_metrics_) gather(batch, set);
    add_to(of_hook, evaluated_.metrics);
  };
  each_batch(evaluate, interrupted);
  trainer_.on_host_event(backends::HostEvent::kMetricRead);
  if (ranks_ != nullptr) {
    metrics.merge(*ranks_, site("eval metrics"));
    of_hook = train::merged(of_hook, *ranks_, site("eval metrics"));
    if (with_metrics_) set = merged(set);
  }
  if (with_metrics_) leave_out_ignored(set);
  newest_ = metrics;
  std::map<std::string, double> result = metrics.result();
  for (const auto& [name, sum] : of_hook) {
    if (!result.emplace(name, sum.sum / sum.weight).second)
      throw Error(
          ErrorKind::kRun,
          fmt::format("evaluation_step returns a metric {} that eval.metrics also has; rename one of them", name),
          line_of_step());
  }
  if (!with_metrics_) return result;
  for (const auto& [name, value] : hooks_->metrics(set)) {
    if (!result.emplace(name, value).second)
      throw Error(
          ErrorKind::kRun,
          fmt::format("metrics.{}: evaluation_step also returns a metric of this name; rename one of them", name),
          line_of_step());
  }
  return result;
}

std::optional<std::string> Evaluator::warning_of_nan() const {
  if (newest_.nan_samples() == 0) return std::nullopt;
  return fmt::format(
      "{} of {} samples have NaN predictions or targets; accuracy and similar metrics still count these samples",
      newest_.nan_samples(), newest_.samples());
}

std::optional<std::string> Evaluator::warning_of_loss() const {
  if (newest_.not_finite_losses() > newest_.nan_samples())
    return fmt::format("the loss is not finite for {} of {} samples", newest_.not_finite_losses(), newest_.samples());
  if (newest_.samples() > 0 && newest_.has_no_weight())
    return "the loss is NaN, because no sample has a weight above 0";
  return std::nullopt;
}

Outputs Evaluator::predict() {
  const data::Encoding& encoding = trainer_.encoding();
  Outputs all;
  std::vector<float> values;
  int64_t samples = 0;
  each_batch([&](const data::Batch& batch) {
    values.resize(static_cast<size_t>(batch.size * encoding.label_width(batch.length) * encoding.outputs));
    trainer_.forward().predict(batch, values);
    if (encoding.has_token_labels())
      add_tokens(all, values, batch, encoding, samples);
    else
      all.values.insert(all.values.end(), values.begin(), values.end());
    samples += batch.size;
  });
  return all;
}

}  // namespace runner::train
