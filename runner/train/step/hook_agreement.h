// What a recipe and its hook must say alike: who makes the model, the optimizers, the schedule, the loop.
#pragma once

#include <string>
#include <vector>

#include "runner/train/step/hooks.h"
#include "schema/recipe.h"

namespace runner::train {

struct Disagreement {
  std::string key;  // of the recipe, which one would change
  std::string message;
};

// `hooks`: null where there is none.  Thread-safe.
std::vector<Disagreement> disagreements(const schema::Recipe& recipe, const Hooks* hooks);

// Throws the first as Error(kRecipe).
void check_agreement(const schema::Recipe& recipe, const Hooks* hooks);

}  // namespace runner::train
