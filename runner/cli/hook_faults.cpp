#include "runner/cli/hook_faults.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/train/loop/hooks.h"
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

}  // namespace

train::Print printer(report::Output& out) {
  return [&out](std::string_view text) { out.talk(fmt::format("{}\n", text)); };
}

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

schema::RecipeError fault_in_hook_file(const Error& error) {
  return schema::RecipeError({fault_of_file(error.where(), error.message())});
}

}  // namespace runner::cli
