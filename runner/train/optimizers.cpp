#include "runner/train/optimizers.h"

#include "runner/optim/lr_schedule.h"
#include "runner/train/hooks.h"
#include "schema/error.h"

namespace runner::train {
namespace {

// What a loop of a hook's does itself would be ignored in the recipe.
void refuse_ignored(const schema::TrainSpec& train, const Hooks& hooks) {
  if (!hooks.has(HookEntry::kTrain)) return;
  const char* ignored = train.clip_grad_norm ? "clip_grad_norm" : train.clip_grad_value ? "clip_grad_value" : nullptr;
  RUN_CHECK(ignored == nullptr, ErrorKind::kRecipe,
            "train.{} is ignored where the hook has an entry train; call acc:{}(limit) there, and remove it", ignored,
            ignored);
  RUN_CHECK(!train.average_every, ErrorKind::kRecipe,
            "train.local_sgd is of the recipe's loop, and the hook has an entry train; remove one");
  RUN_CHECK(!hooks.has(HookEntry::kTrainingStep), ErrorKind::kRecipe,
            "the hook has train and training_step: a loop of its own calls what it needs; remove one");
}

}  // namespace

Optimizers optimizers_of(const schema::Recipe& recipe) {
  const schema::OptimizerSpec& spec = recipe.optimizer;
  Optimizers optimizers{.names = {""}, .groups = {}, .lr = spec.hyper.lr};
  const auto add = [&](std::vector<std::string> params, const schema::OptimizerHyper& hyper) {
    optimizers.groups.push_back({0, std::move(params), {spec.type, optim::under_schedule(hyper, recipe.scheduler)}});
  };
  for (const schema::ParameterGroup& group : spec.groups) add(group.params, group.hyper);
  add({}, spec.hyper);
  return optimizers;
}

void lay_out(nn::ParameterSet& parameters, const schema::Recipe& recipe, const Optimizers& optimizers) {
  std::vector<std::vector<std::string>> patterns;
  for (const OptimizerGroup& group : optimizers.groups)
    if (!group.params.empty()) patterns.push_back(group.params);
  parameters.lay_out(recipe.model.freeze, patterns);
  const auto groups = static_cast<int32_t>(optimizers.groups.size());
  for (const nn::Parameter& parameter : parameters.parameters())
    RUN_CHECK(parameters.buffers()[static_cast<size_t>(parameter.buffer)].group < groups, ErrorKind::kRecipe,
              "no optimizer of the hook updates parameter {}; add it to one, or to model.freeze", parameter.name);
}

Optimizers make_optimizers(const schema::Recipe& recipe, const data::Encoding& encoding, Hooks* hooks,
                           nn::Model& model) {
  if (hooks != nullptr) refuse_ignored(recipe.train, *hooks);
  const bool of_hook = has(hooks, HookEntry::kOptimizers);
  RUN_CHECK(of_hook == (recipe.optimizer.type == schema::OptimizerType::kHook), ErrorKind::kRecipe, "{}",
            of_hook ? "the hook has optimizers, but optimizer.type names another; write optimizer.type: hook"
                    : "optimizer.type is hook, but there is no hook with an entry optimizers");
  Optimizers optimizers = of_hook ? hooks->optimizers(model, encoding) : optimizers_of(recipe);
  lay_out(model.parameters, recipe, optimizers);
  return optimizers;
}

}  // namespace runner::train
