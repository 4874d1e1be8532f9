// Recipes. After a line "==", each line is an argument key=value.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "schema/base/utf8.h"
#include "schema/recipe/recipe_identity.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

using schema::ReadResult;

void check_recipe(const ReadResult& result) {
  const auto sorted = [](const auto& leaves) {
    return std::is_sorted(leaves.begin(), leaves.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  };
  require(sorted(result.leaves) && sorted(result.sections), "leaves or sections are not sorted");
  for (const schema::Leaf& leaf : result.leaves) {
    require(leaf.field != nullptr, "a leaf without a field: " + leaf.path);
    const SourceMark mark = result.mark_of(leaf.path);
    require(mark.line >= 1 && mark.column >= 1, "a leaf without a place: " + leaf.path);
  }
  require(schema::recipe_hash(result).size() == 64, "the hash is not 64 digits");
  schema::origins_json(result);
  schema::flat_settings(result);

  // The resolved recipe in the store must be read back unchanged.
  const std::string resolved = schema::resolved_json(result);
  require(is_utf8(resolved), "the resolved recipe is not UTF-8");
  require(schema::resolved_json(schema::read_resolved(resolved)) == resolved, "resolved otherwise: " + resolved);
}

}  // namespace

bool recipe(Bytes input) {
  constexpr std::string_view kArguments = "\n==\n";
  std::string text(input.begin(), input.end());
  std::vector<std::string> arguments;
  const size_t end = text.find(kArguments);
  if (end != std::string::npos) {
    std::istringstream lines(text.substr(end + kArguments.size()));
    for (std::string line; std::getline(lines, line);) arguments.push_back(line);
    text.resize(end + 1);
  }
  try {
    // A folder that does not exist, so that included files are missing.
    check_recipe(schema::read_recipe_text(text, "no-such-folder/r.yaml", arguments));
    return true;
  } catch (const schema::RecipeError& error) {
    check_diagnostics(error.diagnostics());
    return false;
  }
}

}  // namespace runner::fuzz
