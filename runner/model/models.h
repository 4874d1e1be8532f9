// Builds the model of a recipe.
#pragma once

#include "runner/data/encoding.h"
#include "runner/model/module.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

struct Model {
  ModulePtr module;         // input (B, …) -> outputs (B, outputs), or (B, T, outputs) for tokens
  ParameterSet parameters;  // declared; not laid out
};

// Throws Error(kRecipe) for a type that does not exist yet, and if the type does not accept the data. `has_own_loss`:
// whether a hook computes the loss, so that the labels need not fit the head.
void check_model(const schema::ModelSpec& spec, const data::Encoding& data, bool has_own_loss = false);

// Builds a model that check_model() accepts.
Model build_model(const schema::ModelSpec& spec, const data::Encoding& data);

}  // namespace runner::nn
