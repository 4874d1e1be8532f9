#include "runner/train/loop/memory_estimate.h"

#include <algorithm>
#include <optional>

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

}  // namespace

MemoryEstimate estimate_memory(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                               backends::ModelledDevice& device, Hooks* hooks) {
  RUN_CHECK(!has(hooks, HookEntry::kTrain), ErrorKind::kUsage,
            "the hook has a custom loop, whose memory is known only in a run; `runner show RUN` prints the memory that "
            "a run used");
  TrialRank trial(recipe, data.encoding, device, hooks);
  const auto max_micro_batch = recipe.train.auto_batch_size
                                   ? std::make_optional(fit_batch(trial, recipe, data, plan, device).samples)
                                   : std::nullopt;
  Trainer& trainer = trial.trainer();
  const std::optional<data::DataPlan> evaluation = evaluation_plan(recipe, data, trial.ranks());
  MemoryEstimate estimate{.training = trainer.arrays().memory(), .peak = trainer.step_memory().peak(plan, evaluation)};
  estimate.max_micro_batch = max_micro_batch;
  MemoryUse& use = estimate.training;
  use.activations = estimate.peak.training - use.resident();
  const int64_t state = use.parameters + use.optimizer + use.other;
  estimate.peak.saving = device.has_own_memory() ? std::max(estimate.peak.training, estimate.peak.evaluation)
                                                 : use.total() + copies_for_state(use, state);
  estimate.all_processes = use.total_of(recipe.num_processes);
  return estimate;
}

HostMemory host_memory(const Session& session) {
  return {.weights = session.trainer.model().parameters.elements() * static_cast<int64_t>(sizeof(float)),
          .data = tensor_bytes(session.data.train) + (session.data.eval ? tensor_bytes(*session.data.eval) : 0),
          .processes = session.recipe.num_processes};
}

}  // namespace runner::train
