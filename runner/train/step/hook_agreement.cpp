#include <utility>

#include <fmt/format.h>

#include "runner/data/augment.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/step_hooks.h"
#include "runner/train/step/trace_once.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// A hook entry and a recipe setting that require each other.
struct Pair {
  HookEntry entry;
  bool (*is_chosen)(const schema::Recipe& recipe);
  const char* key;
  const char* only_entry;
  const char* only_choice;
};
constexpr Pair kPairs[] = {
    {HookEntry::kModel, [](const schema::Recipe& recipe) { return recipe.model.type == schema::ModelType::kHook; },
     "model.type", "the hook has a model, but model.type selects another; remove model.type, or set model.type: hook",
     "missing model: add a section model to the recipe, or a function model to the hook"},
    {HookEntry::kOptimizers,
     [](const schema::Recipe& recipe) { return recipe.optimizer.type == schema::OptimizerType::kHook; },
     "optimizer.type", "the hook has optimizers, but optimizer.type selects another; set optimizer.type: hook",
     "optimizer.type is hook, but no hook has an entry optimizers"},
    {HookEntry::kSchedule,
     [](const schema::Recipe& recipe) { return recipe.scheduler.type == schema::SchedulerType::kHook; },
     "scheduler.type", "the hook has a schedule, but scheduler.type selects another; set scheduler.type: hook",
     "scheduler.type is hook, but no hook has an entry schedule"},
};

}  // namespace

std::vector<Disagreement> disagreements(const schema::Recipe& recipe, const StepHooks* hooks) {
  std::vector<Disagreement> found;
  for (const Pair& pair : kPairs) {
    const bool has_entry = has(hooks, pair.entry);
    if (has_entry != pair.is_chosen(recipe))
      found.push_back({pair.key, has_entry ? pair.only_entry : pair.only_choice});
  }
  const DeviceRules& rules = device_rules(recipe);
  if (rules.has_loader && recipe.tpu.host_to_device_transfer_threads > 1 && has(hooks, HookEntry::kTransform))
    found.push_back({"tpu.host_to_device_transfer_threads",
                     "tpu.host_to_device_transfer_threads prepares batches in parallel, but the hook's entry transform "
                     "processes samples sequentially in one Lua state; remove one of them"});
  if (data::mixes(recipe.data.train.augment) && has(hooks, HookEntry::kTransform))
    found.push_back({"data.train.augment",
                     "data.train.augment has mixup, but the hook's entry transform would get samples that are mixed "
                     "already; remove one of them"});
  if (!has(hooks, HookEntry::kTrain)) {
    if (rules.traces_graphs && !recipe.tpu.auto_mark_step)
      found.push_back({"tpu.auto_mark_step",
                       "tpu.auto_mark_step: false needs acc:mark_step() in a hook's entry train, but there is none, so "
                       "the graph would never end; remove it"});
    if (traces_once(recipe) && !has(hooks, HookEntry::kTrainingStep) && !has(hooks, HookEntry::kEvaluationStep))
      found.push_back(
          {"tpu.trace_once", "tpu.trace_once needs a hook with training_step or evaluation_step to replay; remove it"});
    return found;
  }
  // Recipe settings that a hook's training loop would ignore.
  for (const auto& [is_set, name] : {std::pair(recipe.train.clip_grad_norm.has_value(), "clip_grad_norm"),
                                     std::pair(recipe.train.clip_grad_value.has_value(), "clip_grad_value")})
    if (is_set)
      found.push_back(
          {fmt::format("train.{}", name), fmt::format("train.{0} has no effect with the hook's entry train; call "
                                                      "acc:{0}(limit) in train, and remove train.{0}",
                                                      name)});
  if (recipe.log.grad_norm)
    found.push_back({"log.grad_norm",
                     "log.grad_norm has no effect with the hook's entry train; log the result of acc:clip_grad_norm "
                     "in train, and remove log.grad_norm"});
  if (recipe.train.auto_batch_size)
    found.push_back({"train.auto_batch_size",
                     "train.auto_batch_size needs the recipe's loop, whose steps are known before the run, but the "
                     "hook has an entry train; remove one of them"});
  if (rules.has_bucket_cap && recipe.num_processes > 1 && recipe.gpu.bucket_cap != schema::GpuSpec().bucket_cap)
    found.push_back({"gpu.bucket_cap",
                     "gpu.bucket_cap has no effect with the hook's entry train, whose gradients are all-reduced as a "
                     "whole; remove it"});
  if (traces_once(recipe))
    found.push_back({"tpu.trace_once",
                     "tpu.trace_once replays the trace of training_step, but the hook has an entry train, which is "
                     "always traced again; remove it"});
  if (hooks->has(HookEntry::kTrainingStep))
    found.push_back(
        {"hooks", "the hook has both train and training_step, which train would not call; remove one of them"});
  return found;
}

void check_agreement(const schema::Recipe& recipe, const StepHooks* hooks) {
  const std::vector<Disagreement> found = disagreements(recipe, hooks);
  if (!found.empty()) fail(ErrorKind::kRecipe, "{}", found.front().message);
}

}  // namespace runner::train
