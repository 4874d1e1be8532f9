// The built-in model types.
#pragma once

#include "backends/tensor/shape.h"
#include "runner/nn/module.h"

namespace runner::nn {

struct Model {
  ModulePtr module;         // features (B, …) f32 -> outputs (B, outputs)
  ParameterSet parameters;  // declared, not yet laid out
};

// mlp: Sequential(Linear, [LayerNorm,] activation, [Dropout,] …, Linear) over flattened features; linear: one Linear.
// `outputs`: classes, or targets.  Throws Error(kRecipe) for a type that does not exist yet.
Model build_model(const schema::ModelSpec& spec, const backends::Shape& features, int64_t outputs);

}  // namespace runner::nn
