#include "runner/train/run/evaluation_callback.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/train/engine/left_out_batches.h"
#include "schema/base/secrets.h"
#include "schema/base/suggest.h"

namespace runner::train {

EvaluationCallback::EvaluationCallback(TrainState& state, RunRecord& record, DeviceRecord& device,
                                       ProgressCallback& progress)
    : state_(state),
      session_(state.session),
      record_(record),
      device_(device),
      progress_(progress),
      every_(session_.recipe.eval.every.value_or(schema::Length{1, schema::Unit::kEpochs}), session_.length) {
  if (!session_.data.eval) return;
  evaluator_.emplace(session_.trainer, *session_.data.eval, session_.recipe, state.hooks, session_.ranks);
}

bool EvaluationCallback::needs_results(const Progress& after) const {
  return evaluator_ && (due_ || every_.due(state_.reached, after));
}

void EvaluationCallback::on_optimizer_step(const StepResult& /*result*/, const Progress& before) {
  due_ = due_ || every_.due(before, state_.reached);
  state_.evaluation.is_extra = !due_;
  state_.evaluation.due = evaluator_ && state_.weights_agree && (due_ || state_.finished());
}

// A run that was interrupted before its first step has recorded the evaluation at the start.
bool EvaluationCallback::is_repeated() const {
  return state_.step() == 0 && std::ranges::any_of(record_.points().ranges(), [](const auto& metric) {
           return metric.first.starts_with("eval/");
         });
}

void EvaluationCallback::on_evaluation_due() {
  state_.evaluation.done = !is_repeated();
  if (!state_.evaluation.done) return;
  backends::Device& device = *session_.device;
  device_.end(Activity::kTraining);
  const auto before = static_cast<int64_t>(device.temporary_bytes());
  const std::map<std::string, double> metrics = evaluate();
  device_.end(Activity::kEvaluation);
  if (is_released_after_evaluation(before, static_cast<int64_t>(device.temporary_bytes()))) device.release_temporary();
  progress_.evaluated(metrics);
}

std::map<std::string, double> EvaluationCallback::evaluate() {
  due_ = false;
  if (++evaluations_ == 2) warn_of_unrecorded();
  session_.trainer.stepper().read_counters();  // the evaluation may change the schedule
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : evaluator_->run([this] { return state_.control.stops_evaluation(); }))
    metrics["eval/" + name] = value;
  warn_of_not_finite();
  state_.evaluation_is_stale = false;
  for (const auto& [name, value] : metrics) record_.points().add(name, state_.step(), value);
  const schema::SchedulerSpec& scheduler = session_.recipe.scheduler;
  if (optim::observes_metrics(scheduler) && !state_.evaluation.is_extra)
    session_.schedule.observe(session_.broadcast_from_rank_0(record_.points().newest(scheduler.metric)),
                              maximizes(scheduler.mode, scheduler.metric, state_.hooks));
  return metrics;
}

// The next step of the training would report a model that has diverged, but may come much later or never.
void EvaluationCallback::warn_of_not_finite() {
  const auto warn = [&](const std::optional<std::string>& text, bool& warned) {
    if (text && !std::exchange(warned, true))
      record_.warn(fmt::format("evaluation at step {}: {}", state_.step(), *text));
  };
  warn(evaluator_->warning_of_nan(), warned_of_nan_);
  warn(evaluator_->warning_of_loss(), warned_of_loss_);
  warn(warning_of_left_out_batches(session_.trainer.arrays(), session_.trainer.model().parameters),
       warned_of_statistics_);
}

// A hook decides what it records, so a missing metric can be reported only once it should exist.
void EvaluationCallback::warn_of_unrecorded() {
  const schema::Recipe& recipe = session_.recipe;
  std::vector<std::string> names;
  for (const auto& [name, range] : record_.points().ranges()) names.push_back(name);
  const auto check = [&](std::string_view key, const std::string& metric) {
    if (std::ranges::find(names, hide_secrets(metric)) == names.end())
      record_.warn(fmt::format("{} {} is not recorded; {}", key, metric,
                               schema::did_you_mean(metric, names, "`runner metrics RUN` lists the recorded metrics")));
  };
  if (optim::observes_metrics(recipe.scheduler)) check("scheduler.metric", recipe.scheduler.metric);
  if (const auto& spec = recipe.train.early_stopping) check("train.early_stopping.metric", spec->metric);
  if (const auto& spec = recipe.checkpoint.keep_best) check("checkpoint.keep_best.metric", spec->metric);
}

}  // namespace runner::train
