#include "runner/train/memory_use.h"

#include <optional>

#include "backends/collectives/shared_collectives.h"
#include "backends/runtime/arena.h"
#include "runner/train/evaluator.h"
#include "runner/train/trainer.h"
#include "schema/error.h"

namespace runner::train {
namespace {

// The first of replicas that are not there: enough to lay out and compile what they would do together.
class FirstOfReplicas {
 public:
  explicit FirstOfReplicas(int size)
      : memory_(backends::SharedCollectives::memory_bytes(size)),
        ranks_({memory_.data(), memory_.bytes()}, 0, size, {}) {}
  backends::Collectives& ranks() { return ranks_; }

 private:
  backends::Arena memory_;
  backends::SharedCollectives ranks_;
};

}  // namespace

MemoryEstimate estimate_memory(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                               backends::Device& device, Hooks* hooks) {
  RUN_CHECK(
      !has(hooks, HookEntry::kTrain), ErrorKind::kUsage,
      "the hook has a loop of its own, and what it computes is known only when it runs; `runner show RUN` has the "
      "memory that a run has taken");
  std::optional<FirstOfReplicas> replicas;
  if (recipe.num_processes > 1) replicas.emplace(static_cast<int>(recipe.num_processes));
  backends::Collectives* const ranks = replicas ? &replicas->ranks() : nullptr;
  Trainer trainer(recipe, data.encoding, device, hooks, ranks);
  MemoryEstimate estimate{.training = trainer.arrays_memory(), .peak = {}};
  MemoryUse& use = estimate.training;
  use.activations = trainer.temporary_bytes_of_window(plan.max_batch());
  estimate.peak.training = use.total();
  estimate.peak.saving = use.total() + copies_for_state(use, use.parameters + use.optimizer + use.other);
  if (data.eval) {
    const int64_t batch = evaluation_plan(recipe, data.eval->size(), ranks).max_batch();
    estimate.peak.evaluation = use.resident() + std::max(use.activations, trainer.temporary_bytes_of_evaluation(batch));
  }
  estimate.all_processes = use.total() + (recipe.num_processes - 1) * (use.gradients + use.other + use.activations);
  return estimate;
}

}  // namespace runner::train
