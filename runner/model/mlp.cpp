// model.type mlp: linear layers with an activation after each but the last.
#include "runner/model/model_def.h"

namespace runner::nn {

const ModelDef kMlpModel{
    .type = schema::ModelType::kMlp,
    .inputs = kNumbersOfAnyShape,
    .check = kNoCheck,
    .check_labels = kNoCheck,
    // Sequential(Linear, [LayerNorm,] activation, [Dropout,] …, Linear) over flattened samples.
    .build = [](const schema::ModelSpec& spec, const data::Encoding& data) -> ModulePtr {
      std::vector<ModulePtr> layers;
      int64_t in = data.feature_shape.elements();
      for (const int64_t width : spec.hidden) {
        layers.push_back(linear(in, width, spec.bias));
        if (spec.layer_norm) layers.push_back(layer_norm(width));
        layers.push_back(activation(spec.activation));
        if (spec.dropout > 0) layers.push_back(dropout(spec.dropout));
        in = width;
      }
      layers.push_back(linear(in, data.outputs, spec.bias));
      return over_flat_samples(sequential(std::move(layers)));
    },
    .transformer = kNoTransformer,
    .output_layer = kNoNewHead,
    .pretrained = kNotPretrained,
};

}  // namespace runner::nn
