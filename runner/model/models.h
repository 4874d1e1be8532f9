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

// Throws Error(kRecipe) for a type that does not exist yet, and if the type does not accept the data.
void check_model(const schema::ModelSpec& spec, const data::Encoding& data);

// Builds a model that check_model() accepts.
Model build_model(const schema::ModelSpec& spec, const data::Encoding& data);

}  // namespace runner::nn
