#include "runner/train/loop/batch_fit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/exec/backend.h"
#include "backends/runtime/available_memory.h"
#include "backends/tensor/rounding.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/trial_rank.h"
#include "schema/base/error.h"
#include "schema/recipe/field_words.h"

namespace runner::train {
namespace {

// Without a device limit, processes divide the free memory of the machine. Shared memory counts once.
int64_t memory_of_a_process(const backends::Device& device, const schema::Recipe& recipe, int64_t common) {
  if (const auto limit = device.memory_limit()) return *limit;
  const int64_t available = std::max(static_cast<int64_t>(backends::available_memory()), common);
  return common + (available - common) / recipe.num_processes;
}

[[noreturn]] void fail_with(const std::vector<BatchAttempt>& attempts, int64_t resident, int64_t memory) {
  const int64_t least = std::ranges::min(attempts, {}, &BatchAttempt::bytes).bytes;
  fail(ErrorKind::kRun,
       "train.auto_batch_size: not even a micro-batch of one sample fits: a process needs at least {}, {} of it for "
       "parameters, gradients and optimizer state, {} available; use a smaller model or more memory",
       schema::readable_size(least), schema::readable_size(resident), schema::readable_size(memory));
}

}  // namespace

FittedBatch fitted_before(int64_t samples, const schema::Recipe& recipe, const data::DataPlan& plan) {
  const int64_t batch = plan.max_batch();
  FittedBatch fitted;
  fitted.samples = samples;
  fitted.batch_size = std::min(samples, batch);
  fitted.accumulation = recipe.gradient_accumulation_steps * backends::ceil_div(batch, fitted.batch_size);
  return fitted;
}

FittedBatch fit_batch(TrialRank& trial, const schema::Recipe& recipe, const data::Data& data,
                      const data::DataPlan& plan, const backends::Device& device) {
  const int64_t in_training = plan.max_batch();
  const std::optional<data::DataPlan> evaluation =
      evaluation_plan(trial.trainer().builder(), data, recipe.num_processes);
  const int64_t in_evaluation = evaluation ? evaluation->max_batch() : 0;
  const int64_t memory = memory_of_a_process(device, recipe, trial.trainer().arrays().memory().common);
  int64_t limit = memory;  // a device may have less memory
  std::vector<BatchAttempt> attempts;
  for (int64_t samples = std::max(in_training, in_evaluation);; samples = (samples + 1) / 2) {
    trial.set_max_micro_batch(samples, in_training);
    try {
      const PeakMemory peak = trial.trainer().step_memory().peak(plan, evaluation);
      const int64_t bytes = std::max(peak.training, peak.evaluation);
      attempts.push_back({samples, bytes, bytes <= memory});
    } catch (const backends::OutOfMemory& error) {
      if (samples == 1) throw;
      attempts.push_back({samples, error.bytes(), false});
      limit = error.limit();
    }
    if (!attempts.back().fits && samples == 1) fail_with(attempts, trial.trainer().arrays().memory().total(), memory);
    if (!attempts.back().fits) continue;
    FittedBatch fitted = fitted_before(samples, recipe, plan);
    fitted.memory_bytes = limit;
    fitted.attempts = std::move(attempts);
    return fitted;
  }
}

}  // namespace runner::train
