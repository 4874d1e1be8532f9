// The built-in model types.
#pragma once

#include "backends/tensor/shape.h"
#include "runner/model/module.h"

namespace runner::nn {

struct Model {
  ModulePtr module;         // features (B, …) f32 -> outputs (B, outputs)
  ParameterSet parameters;  // declared, but lay_out() has not been called
};

// Builds a model. mlp: Sequential(Linear, [LayerNorm,] activation, [Dropout,] …, Linear) over flattened features;
// linear: one Linear. `outputs`: number of classes or targets. Throws Error(kRecipe) for an unsupported type.
Model build_model(const schema::ModelSpec& spec, const backends::Shape& features, int64_t outputs);

}  // namespace runner::nn
