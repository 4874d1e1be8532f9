#include "runner/train/engine/hook_agreement.h"

#include <utility>

#include <fmt/format.h>

#include "runner/train/engine/device_rules.h"
#include "runner/train/engine/trace_once.h"
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
     "model.type", "the hook has a model, and model.type names another; leave it out, or write model.type: hook",
     "there is no model: write one under model, or a function model in the hook"},
    {HookEntry::kOptimizers,
     [](const schema::Recipe& recipe) { return recipe.optimizer.type == schema::OptimizerType::kHook; },
     "optimizer.type", "the hook has optimizers, but optimizer.type names another; write optimizer.type: hook",
     "optimizer.type is hook, but there is no hook with an entry optimizers"},
    {HookEntry::kSchedule,
     [](const schema::Recipe& recipe) { return recipe.scheduler.type == schema::SchedulerType::kHook; },
     "scheduler.type", "the hook has a schedule, but scheduler.type is not hook; write scheduler.type: hook",
     "scheduler.type is hook, but there is no hook with an entry schedule"},
};

}  // namespace

std::vector<Disagreement> disagreements(const schema::Recipe& recipe, const Hooks* hooks) {
  std::vector<Disagreement> found;
  for (const Pair& pair : kPairs) {
    const bool has_entry = has(hooks, pair.entry);
    if (has_entry != pair.is_chosen(recipe))
      found.push_back({pair.key, has_entry ? pair.only_entry : pair.only_choice});
  }
  const DeviceRules& rules = device_rules(recipe);
  if (rules.has_loader && recipe.tpu.host_to_device_transfer_threads > 1 && has(hooks, HookEntry::kTransform))
    found.push_back({"tpu.host_to_device_transfer_threads",
                     "tpu.host_to_device_transfer_threads lets batches be made at once, and the hook has an entry "
                     "transform, which makes samples one after the other in one Lua state; remove one"});
  if (!has(hooks, HookEntry::kTrain)) {
    if (rules.traces_graphs && !recipe.tpu.auto_mark_step)
      found.push_back(
          {"tpu.auto_mark_step",
           "tpu.auto_mark_step: false leaves the cuts to acc:mark_step() in a hook's entry train, and there "
           "is none: the graph would never be cut; leave it out"});
    if (traces_once(recipe) && !has(hooks, HookEntry::kTrainingStep) && !has(hooks, HookEntry::kEvaluationStep))
      found.push_back({"tpu.trace_once",
                       "tpu.trace_once replays what a hook's training_step and evaluation_step trace, and there is "
                       "none; remove it"});
    return found;
  }
  // Recipe settings that a hook's training loop would ignore.
  for (const auto& [is_set, name] : {std::pair(recipe.train.clip_grad_norm.has_value(), "clip_grad_norm"),
                                     std::pair(recipe.train.clip_grad_value.has_value(), "clip_grad_value")})
    if (is_set)
      found.push_back({fmt::format("train.{}", name),
                       fmt::format("train.{0} is ignored where the hook has an entry train; call acc:{0}(limit) there, "
                                   "and remove it",
                                   name)});
  if (recipe.train.auto_batch_size)
    found.push_back(
        {"train.auto_batch_size",
         "train.auto_batch_size is of the recipe's loop, whose steps are known before it runs, and the hook "
         "has an entry train; remove one"});
  if (recipe.backend == schema::Backend::kGpu && recipe.num_processes > 1 &&
      recipe.gpu.bucket_cap != schema::GpuSpec().bucket_cap)
    found.push_back({"gpu.bucket_cap",
                     "gpu.bucket_cap is ignored where the hook has an entry train, whose gradients are reduced as a "
                     "whole; remove it"});
  if (traces_once(recipe))
    found.push_back({"tpu.trace_once",
                     "tpu.trace_once replays what training_step traces, and the hook has an entry train, which "
                     "traces as it goes; remove it"});
  if (hooks->has(HookEntry::kTrainingStep))
    found.push_back(
        {"hooks", "the hook has train and training_step: a loop of its own calls what it needs; remove one"});
  return found;
}

void check_agreement(const schema::Recipe& recipe, const Hooks* hooks) {
  const std::vector<Disagreement> found = disagreements(recipe, hooks);
  if (!found.empty()) fail(ErrorKind::kRecipe, "{}", found.front().message);
}

}  // namespace runner::train
