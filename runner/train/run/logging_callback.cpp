#include "runner/train/run/logging_callback.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "runner/train/run/run.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/parameter_use.h"
#include "schema/base/error.h"

namespace runner::train {

LoggingCallback::LoggingCallback(TrainState& state, RunRecord& record)
    : state_(state), session_(state.session), record_(record), every_(session_.recipe.log.every, session_.length) {}

bool LoggingCallback::needs_results(const Progress& after) const {
  return !record_.result.first_step_seconds || every_.due(state_.reached, after);
}

void LoggingCallback::on_log(const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) record_.points().add(name, state_.step(), value);
}

void LoggingCallback::on_optimizer_step(const StepResult& result, const Progress& before) {
  result_ = result;
  samples_ += result.samples;
  if (state_.records_batches)
    record_.points().add(kBatchDigest, state_.step(), static_cast<double>(result.batch_digest >> 11));
  if (!record_.result.first_step_seconds) record_.first_optimizer_step();
  logged_ = every_.due(before, state_.reached) || state_.finished();
  if (logged_) log();
}

void LoggingCallback::on_step_done() {
  if (state_.stops() && !logged_) log();
}

void LoggingCallback::log() {
  MetricRecorder& points = record_.points();
  const int64_t step = state_.step();
  session_.trainer.stepper().read_counters(result_);
  const double loss = session_.trainer.means().take_loss();
  points.add("train/loss", step, loss);
  if (std::isnan(loss) && state_.skipped == 0 && !std::exchange(warned_of_no_weight_, true))
    record_.warn(
        fmt::format("train/loss of step {} is NaN: {}", step,
                    session_.has_custom_loop
                        ? "acc:backward was not called since the previous point"
                        : fmt::format("no sample since the previous point has a weight above 0; {}", weight_advice())));
  points.add("train/lr", step, result_.lr);
  if (reports_grad_norm(session_.recipe) && !session_.has_custom_loop && result_.applied)
    points.add("train/grad_norm", step, result_.grad_norm);
  if (const auto scale = session_.trainer.loss_scale()) {
    points.add("train/scale", step, *scale);
    RUN_CHECK(result_.applied || *scale >= kSmallestScale, ErrorKind::kRun,
              "gradients overflow in fp16 at any loss scale; the scale fell to {:.3g} at step {}; use mixed_precision: "
              "bf16, or a smaller learning rate",
              *scale, step);
  }
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - logged_at_).count();
  points.add("train/samples_per_s", step, static_cast<double>(samples_) / seconds);
  for (const auto& [name, sum] : session_.trainer.means().take_metrics())
    points.add("train/" + name, step, sum.sum / sum.weight);
  logged_at_ = now;
  samples_ = 0;
}

std::string_view LoggingCallback::weight_advice() const {
  const schema::TrainSpec& train = session_.recipe.train;
  if (session_.has_training_step) return "check the weights that the hook's training_step returned";
  if (session_.data.encoding.masking)
    return "no token was masked; raise train.objective.probability or data.batch_size";
  if (train.class_weights.empty()) return "check train.ignore_index";
  return train.ignore_index ? "check train.class_weights and train.ignore_index" : "check train.class_weights";
}

void WarningCallback::on_optimizer_step(const StepResult& /*result*/, const Progress& /*before*/) {
  warn_of_unused();
  take_from_device();
}

void WarningCallback::take_from_device() {
  record_.warn_of_all(session_.device->take_warnings());
}

void WarningCallback::warn_of_unused() {
  const std::string& names = session_.trainer.steps().unused();
  if (names.empty() || std::exchange(warned_of_unused_, true)) return;
  // With a hook, the losses of other ranks may depend on it.
  const bool alone = session_.ranks != nullptr && hooks_ != nullptr;
  record_.warn(
      fmt::format("the loss{} does not depend on {}: {}; freeze parameters that should not be trained (model.freeze)",
                  alone ? " of process 0" : "", names,
                  skips_unused(session_.recipe.comm) ? "a step updates only parameters that its loss depends on"
                  : alone ? "its part of their gradient is zero, but weight decay still applies"
                          : "their gradient is zero, but weight decay still applies"));
}

}  // namespace runner::train
