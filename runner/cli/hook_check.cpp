#include "runner/cli/hook_check.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "runner/lua/hook_file.h"
#include "runner/train/step/hook_agreement.h"

namespace runner::cli {
namespace {

using schema::Diagnostic;

Diagnostic fault_at(const SourceMark& where, std::string key, std::string message) {
  Diagnostic fault;
  fault.id = schema::ErrorId::kBadHook;
  fault.where = {where.file, where.line, std::max(where.column, 1)};
  fault.key = std::move(key);
  fault.message = std::move(message);
  return fault;
}

}  // namespace

std::vector<Diagnostic> hook_faults(const schema::ReadResult& recipe) {
  std::unique_ptr<train::Hooks> hooks;
  try {
    hooks = lua::load_hooks(recipe.recipe);
  } catch (const schema::RecipeError& error) {
    return error.diagnostics();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRecipe) throw;
    return {fault_at(error.where().known() ? error.where() : recipe.mark_of("hooks"), "hooks", error.message())};
  }
  std::vector<Diagnostic> faults;
  for (const train::Disagreement& found : train::disagreements(recipe.recipe, hooks.get()))
    faults.push_back(fault_at(recipe.mark_of(found.key), found.key, found.message));
  return faults;
}

}  // namespace runner::cli
