#include "runner/train/loop/memory_use.h"

#include "runner/train/loop/batch_fit.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_replica.h"
#include "schema/error.h"

namespace runner::train {

MemoryEstimate estimate_memory(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                               backends::Device& device, Hooks* hooks) {
  RUN_CHECK(
      !has(hooks, HookEntry::kTrain), ErrorKind::kUsage,
      "the hook has a loop of its own, and what it computes is known only when it runs; `runner show RUN` has the "
      "memory that a run has taken");
  TrialReplica trial(recipe, data.encoding, device, hooks);
  Trainer& trainer = trial.trainer();
  if (recipe.train.auto_batch_size) fit_batch(trial, recipe, data, plan, device);
  MemoryEstimate estimate{.training = trainer.arrays().memory(), .peak = {}};
  MemoryUse& use = estimate.training;
  use.activations = trainer.temporary_bytes_of_window(plan);
  estimate.peak.training = use.total();
  estimate.peak.saving = use.total() + copies_for_state(use, use.parameters + use.optimizer + use.other);
  if (data.eval) {
    const int64_t batch = evaluation_plan(recipe, data.eval->size(), trial.ranks()).max_batch();
    estimate.peak.evaluation =
        use.resident() + std::max(use.activations, trainer.forward().temporary_bytes(trainer.parts.at_once(batch)));
  }
  estimate.all_processes = use.total_of(recipe.num_processes);
  return estimate;
}

}  // namespace runner::train
