#include "runner/train/loop/step_estimate.h"

#include <algorithm>
#include <optional>

#include "backends/gpu/gpu_device.h"
#include "runner/train/loop/batch_fit.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_rank.h"
#include "schema/base/error.h"

namespace runner::train {

namespace {

int64_t tensor_bytes(const data::Dataset& dataset) {
  if (dataset.shuffle_buffer() > 0) return 0;
  const bool targets = dataset.label_kind() == data::LabelKind::kTarget;
  const int64_t labels = targets ? dataset.outputs() * static_cast<int64_t>(sizeof(float))
                                 : dataset.label_width() * static_cast<int64_t>(sizeof(int64_t));
  return dataset.size() * (dataset.feature_shape().elements() * static_cast<int64_t>(sizeof(float)) + labels);
}

// Whether a checkpoint is copied, so that training continues while it is saved.
bool copies_states(const schema::Recipe& recipe, const backends::ModelledDevice& device) {
  return recipe.checkpoint.every || recipe.checkpoint.keep_best || !device.has_views();
}

// `evaluation`: how the evaluation data is divided; none if there is no evaluation.
PeakMemory peak_of(Trainer& trainer, const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation,
                   const backends::ModelledDevice& device) {
  PeakMemory peak = trainer.step_memory().peak(plan, evaluation);
  const MemoryUse use = trainer.arrays().memory();
  if (device.has_own_memory()) {
    peak.saving = std::max(peak.training, peak.evaluation);
    return peak;
  }
  const bool is_released =
      evaluation && saves_after_evaluations(trainer.builder().recipe()) &&
      is_released_after_evaluation(peak.training - use.resident(), peak.evaluation - use.resident());
  const int64_t state = use.parameters + use.optimizer + use.other;
  peak.saving = (is_released ? use.resident() : peak.training) +
                (copies_states(trainer.builder().recipe(), device) ? copies_for_state(use, state) : 0);
  return peak;
}

}  // namespace

bool saves_after_evaluations(const schema::Recipe& recipe) {
  const auto &saved = recipe.checkpoint.every, &evaluated = recipe.eval.every;
  if (!saved || saved == evaluated) return true;
  return evaluated && saved->unit == evaluated->unit && saved->divisor == evaluated->divisor &&
         saved->count % evaluated->count == 0;
}

StepEstimate estimate_steps(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                            backends::ModelledDevice& device, Hooks* hooks) {
  TrialRank trial(recipe, run_length(recipe, plan).total_steps, data.encoding, device, hooks);
  return estimate_steps(trial, recipe, data, plan, device, hooks);
}

StepEstimate estimate_steps(TrialRank& trial, const schema::Recipe& recipe, const data::Data& data,
                            const data::DataPlan& plan, backends::ModelledDevice& device, Hooks* hooks) {
  if (has(hooks, HookEntry::kTrain)) throw UnknownBeforeRun("the hook's own training loop decides about the steps");
  const auto max_micro_batch =
      recipe.train.auto_batch_size
          ? std::make_optional(trial.compile([&] { return fit_batch(trial, recipe, data, plan, device).samples; }))
          : std::nullopt;
  Trainer& trainer = trial.trainer();
  StepEstimate estimate{.training = trainer.arrays().memory(), .peak = trial.compile([&] {
                          return peak_of(trainer, plan, evaluation_plan(trainer.builder(), data, recipe.num_processes),
                                         device);
                        })};
  estimate.max_micro_batch = max_micro_batch;
  if (const auto* const gpu = backends::gpu::find_gpu_model(device))
    estimate.gpu_time = trial.compile(
        [&] { return gpu->predicted_step(trainer.step_memory().submissions(plan), recipe.data.prefetch > 0); });
  estimate.training.activations = estimate.peak.training - estimate.training.resident();
  estimate.all_processes = estimate.training.total_of(recipe.num_processes);
  return estimate;
}

PeakMemory predicted_peak(Session& session, bool evaluates) {
  const auto evaluation =
      evaluates ? evaluation_plan(session.trainer.builder(), session.data, session.recipe.num_processes) : std::nullopt;
  return peak_of(session.trainer, session.plan, evaluation, *session.device);
}

HostMemory host_memory(const Session& session) {
  return {.weights = session.trainer.model().parameters.elements() * static_cast<int64_t>(sizeof(float)),
          .data = tensor_bytes(session.data.train) + (session.data.eval ? tensor_bytes(*session.data.eval) : 0),
          .processes = session.recipe.num_processes};
}

}  // namespace runner::train
