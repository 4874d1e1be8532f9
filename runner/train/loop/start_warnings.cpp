#include "runner/train/loop/start_warnings.h"

#include <utility>

#include "runner/optim/bf16_warnings.h"
#include "runner/train/step/device_rules.h"
#include "schema/recipe/recipe_warnings.h"

namespace runner::train {

std::vector<std::string> start_warnings(const schema::ReadResult& recipe) {
  std::vector<std::string> warnings = schema::recipe_warnings(recipe);
  if (!rounds_to_bf16(recipe.recipe)) return warnings;
  for (std::string& text : optim::bf16_warnings(recipe)) warnings.push_back(std::move(text));
  return warnings;
}

}  // namespace runner::train
