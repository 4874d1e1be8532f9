// Builds the model of a recipe.
#pragma once

#include <string_view>
#include <vector>

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

// Distance of a parameter of a transformer from its outputs: 0 for the head, 1 for the last layer, up to spec.layers
// for the first one, spec.layers + 1 for embeddings.
int64_t distance_from_outputs(const schema::ModelSpec& spec, std::string_view name);

// The types whose checkpoints model.pretrained reads.
std::vector<schema::ModelType> pretrained_types();

// Builds a model that check_model() accepts.
Model build_model(const schema::ModelSpec& spec, const data::Encoding& data);

}  // namespace runner::nn
