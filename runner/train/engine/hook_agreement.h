// Checks that a recipe and its hook agree on which of them provides the model, the optimizers, the schedule and the
// loop.
#pragma once

#include <string>
#include <vector>

#include "runner/train/engine/hooks.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

struct Disagreement {
  std::string key;  // recipe key to change
  std::string message;
};

// Returns all disagreements. `hooks`: null if there is no hook. Thread-safe.
std::vector<Disagreement> disagreements(const schema::Recipe& recipe, const Hooks* hooks);

// Throws the first disagreement as Error(kRecipe).
void check_agreement(const schema::Recipe& recipe, const Hooks* hooks);

}  // namespace runner::train
