#include "runner/cli/recipe_faults.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runner/lua/hook_file.h"
#include "runner/train/step/hook_agreement.h"
#include "runner/train/step/tpu_rules.h"

namespace runner::cli {
namespace {

using schema::Diagnostic;
using enum schema::ErrorId;

Diagnostic fault_at(schema::ErrorId id, const SourceMark& where, std::string key, std::string message) {
  Diagnostic fault;
  fault.id = id;
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
    return {
        fault_at(kBadHook, error.where().known() ? error.where() : recipe.mark_of("hooks"), "hooks", error.message())};
  }
  std::vector<Diagnostic> faults;
  for (const train::Disagreement& found : train::disagreements(recipe.recipe, hooks.get()))
    faults.push_back(fault_at(kBadHook, recipe.mark_of(found.key), found.key, found.message));
  return faults;
}

std::vector<Diagnostic> device_faults(const schema::ReadResult& recipe) {
  const std::optional<std::string> fault = train::board_fault(recipe.recipe);
  if (!fault) return {};
  const schema::Leaf* processes = recipe.find("num_processes");
  const bool written = processes != nullptr && processes->origin != schema::OriginKind::kDefault;
  const std::string key = written ? "num_processes" : "tpu.generation";
  return {fault_at(kConflictingKeys, recipe.mark_of(key), key, *fault)};
}

void check_device(const schema::ReadResult& recipe) {
  std::vector<Diagnostic> faults = device_faults(recipe);
  if (!faults.empty()) throw schema::RecipeError(std::move(faults));
}

}  // namespace runner::cli
