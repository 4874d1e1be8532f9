#include "runner/train/run/window_log.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/train/engine/loss_scaler.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/suggest.h"

namespace runner::train {

WindowLog::WindowLog(Session& session, RunRecord& record, Hooks* hooks)
    : session_(session),
      record_(record),
      own_loop_(has(hooks, HookEntry::kTrain)),
      own_step_(has(hooks, HookEntry::kTrainingStep)),
      log_every_(session.recipe.log.every),
      evaluate_every_(session.recipe.eval.every.value_or(schema::Length{1, schema::Unit::kEpochs})) {
  if (!session.data.eval) return;
  evaluator_.emplace(session.trainer, *session.data.eval, session.recipe, hooks, session.ranks);
}

void WindowLog::stop_where_patience_is_over() {
  if (const auto& spec = session_.recipe.train.early_stopping) stopped_early_ = patience_.evaluations >= spec->patience;
}

bool WindowLog::is_due(const Reached& before, const Reached& after) const {
  if (log_every_.due(before, after)) return true;
  return evaluates() && (evaluation_due_ || evaluate_every_.due(before, after));
}

void WindowLog::take(const TrainingWindow& window, const Reached& before, const Reached& after) {
  evaluated_ = false;
  logging_due_ = log_every_.due(before, after);
  evaluation_due_ = evaluation_due_ || evaluate_every_.due(before, after);
  window_ = window;
  samples_ += window.samples;
}

void WindowLog::log() {
  Recorder& points = record_.points();
  session_.trainer.learn(window_);
  const double loss = session_.trainer.means().take_loss();
  points.add("train/loss", step(), loss);
  if (std::isnan(loss) && record_.result.skipped_steps == 0 && !std::exchange(warned_of_no_weight_, true))
    record_.warn(fmt::format("train/loss of step {} is NaN: {}", step(),
                             own_loop_
                                 ? "acc:backward has had no loss since the point before it"
                                 : fmt::format("no sample since the point before it has a weight; {}", what_weighs())));
  points.add("train/lr", step(), window_.lr);
  if (session_.recipe.train.clip_grad_norm && window_.applied) points.add("train/grad_norm", step(), window_.grad_norm);
  if (const auto scale = session_.trainer.loss_scale()) {
    points.add("train/scale", step(), *scale);
    RUN_CHECK(
        window_.applied || *scale >= kSmallestScale, ErrorKind::kRun,
        "gradients overflow in fp16 at any loss scale, which has fallen to {:.3g} at step {}; use mixed_precision: "
        "bf16, or a smaller learning rate",
        *scale, step());
  }
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - logged_at_).count();
  points.add("train/samples_per_s", step(), static_cast<double>(samples_ - logged_samples_) / seconds);
  for (const auto& [name, sum] : session_.trainer.means().take_metrics())
    points.add("train/" + name, step(), sum.sum / sum.weight);
  logged_at_ = now;
  logged_samples_ = samples_;
}

std::string_view WindowLog::what_weighs() const {
  const schema::TrainSpec& train = session_.recipe.train;
  if (own_step_) return "the weights are those that the hook's training_step returned";
  if (train.class_weights.empty()) return "train.ignore_index decides";
  return train.ignore_index ? "train.class_weights and train.ignore_index decide" : "train.class_weights decide";
}

// A hook decides what it records, so a missing metric can be reported only once it should exist.
void WindowLog::warn_of_unrecorded() {
  const schema::Recipe& recipe = session_.recipe;
  std::vector<std::string> names;
  for (const auto& [name, range] : record_.points().ranges()) names.push_back(name);
  const auto check = [&](std::string_view key, const std::string& metric) {
    if (std::ranges::find(names, metric) == names.end())
      record_.warn(fmt::format("{} {} is not recorded; {}", key, metric,
                               schema::did_you_mean(metric, names, "runner metrics RUN lists what is")));
  };
  if (recipe.scheduler.type == schema::SchedulerType::kPlateau) check("scheduler.metric", recipe.scheduler.metric);
  if (const auto& spec = recipe.train.early_stopping) check("train.early_stopping.metric", spec->metric);
  if (const auto& spec = recipe.checkpoint.keep_best) check("checkpoint.keep_best.metric", spec->metric);
}

std::map<std::string, double> WindowLog::evaluate(const std::function<bool()>& interrupted) {
  evaluation_due_ = false;
  if (++evaluations_ == 2) warn_of_unrecorded();
  session_.trainer.learn();  // the evaluation may change the schedule
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : evaluator_->run(interrupted)) metrics["eval/" + name] = value;
  if (const auto text = evaluator_->warning(); text && !std::exchange(warned_of_nan_, true))
    record_.warn(fmt::format("the evaluation at step {}: {}", step(), *text));
  for (const auto& [name, value] : metrics) record_.points().add(name, step(), value);
  evaluated_ = true;
  const schema::Recipe& recipe = session_.recipe;
  if (recipe.scheduler.type == schema::SchedulerType::kPlateau)
    session_.schedule.observe(session_.of_main(record_.points().newest(recipe.scheduler.metric)));
  if (recipe.train.early_stopping) check_patience(*recipe.train.early_stopping);
  return metrics;
}

void WindowLog::check_patience(const schema::EarlyStopping& spec) {
  const double value = session_.of_main(record_.points().newest(spec.metric));
  const bool maximizes = spec.mode == schema::Mode::kMax;
  const double gain =
      maximizes ? value - patience_.best.value_or(-INFINITY) : patience_.best.value_or(INFINITY) - value;
  if (gain > spec.min_delta) {
    patience_ = {value, 0};
    return;
  }
  if (++patience_.evaluations < spec.patience) return;
  stopped_early_ = true;
  record_.event(
      store::Level::kInfo, "early_stopping",
      json::line(json::Object{{"step", step()}, {"metric", spec.metric}, {"evaluations", patience_.evaluations}}));
}

}  // namespace runner::train
