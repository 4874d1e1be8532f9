#include "runner/cli/hook_faults.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/data/load.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/optimizers.h"
#include "schema/base/diagnostic.h"

namespace runner::cli {
namespace {

using schema::Diagnostic;
using enum schema::ErrorId;

Diagnostic fault_of_file(const SourceMark& where, const std::string& message) {
  Diagnostic fault;
  fault.id = kBadHook;
  fault.where = {where.file, where.line, std::max(where.column, 1)};
  fault.key = "hooks";
  fault.message = message;
  return fault;
}

std::unique_ptr<train::Hooks> made(const schema::ReadResult& recipe, const train::MakeHooks& make,
                                   const schema::Recipe& of_run) {
  try {
    return make(of_run);
  } catch (const schema::RecipeError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRecipe) throw;
    throw schema::RecipeError({error.where().known() ? fault_of_file(error.where(), error.message())
                                                     : recipe.fault(kBadHook, "hooks", error.message())});
  }
}

std::vector<std::string> optimizer_warnings(const schema::Recipe& recipe, const data::Encoding& encoding,
                                            train::Hooks* hooks) {
  nn::Model model = train::make_model(recipe, encoding, hooks);
  return train::hook_optimizer_warnings(recipe, train::make_optimizers(recipe, encoding, hooks, model));
}

}  // namespace

train::MakeHooks usable_hooks(const schema::ReadResult& recipe, train::MakeHooks make) {
  return [&recipe, make = std::move(make)](const schema::Recipe& of_run) {
    std::unique_ptr<train::Hooks> hooks = made(recipe, make, of_run);
    std::vector<Diagnostic> faults;
    for (const train::Disagreement& found : train::disagreements(of_run, hooks.get()))
      faults.push_back(recipe.fault(kBadHook, found.key, found.message));
    if (!faults.empty()) throw schema::RecipeError(std::move(faults));
    return hooks;
  };
}

std::vector<std::string> check_model_and_optimizers(const schema::ReadResult& recipe, train::Hooks* hooks) {
  if (!has(hooks, train::HookEntry::kModel) && !has(hooks, train::HookEntry::kOptimizers)) return {};
  try {
    return optimizer_warnings(recipe.recipe, data::load(recipe.recipe).encoding, hooks);
  } catch (const schema::RecipeError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kData)
      return {fmt::format("the hook's model and optimizers are not checked, because the data cannot be read: {}",
                          error.message())};
    if (!error.where().known()) throw;
    throw schema::RecipeError({fault_of_file(error.where(), error.message())});
  }
}

}  // namespace runner::cli
