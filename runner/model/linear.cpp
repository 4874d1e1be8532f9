// model.type linear: one linear layer.
#include "runner/model/model_def.h"

namespace runner::nn {

const ModelDef kLinearModel{
    .type = schema::ModelType::kLinear,
    .inputs = kNumbersOfAnyShape,
    .check = kNoCheck,
    .check_labels = kNoCheck,
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      return over_flat_samples(sequential({linear(data.feature_shape.elements(), data.outputs, spec.bias)}));
    },
    .transformer = kNoTransformer,
    .output_layer = kNoNewHead,
    .pretrained = kNotPretrained,
};

}  // namespace runner::nn
