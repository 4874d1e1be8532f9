// The model types of the recipe, one row each: the enumerator of schema::ModelType without its k.
#pragma once

#include "runner/model/model_def.h"

#define RUNNER_MODELS(MODEL) \
  MODEL(Mlp)                 \
  MODEL(Linear)

namespace runner::nn {

#define RUNNER_DECLARE_MODEL(Name) extern const ModelDef k##Name##Model;
RUNNER_MODELS(RUNNER_DECLARE_MODEL)
#undef RUNNER_DECLARE_MODEL

}  // namespace runner::nn
