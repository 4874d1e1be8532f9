#include "runner/train/run/exported_model.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "runner/data/encoding.h"
#include "runner/formats/model_files.h"
#include "runner/train/run/checkpoint/model_metadata.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The first layer of a model of the recipe: y = W x + b.
struct FirstLayer {
  std::vector<float> weight, bias;  // (outputs, inputs), (outputs)
};

// Returns the layer that computes of raw features x what `layer` computes of (x · scale − center) / spread: the weights
// W · scale / spread, and the bias b − W (center / spread). Computed in f64.
FirstLayer folded(FirstLayer layer, const data::Encoding& encoding, double scale) {
  const size_t inputs = layer.weight.size() / layer.bias.size();
  for (size_t out = 0; out < layer.bias.size(); ++out) {
    double bias = double{layer.bias[out]};
    for (size_t in = 0; in < inputs; ++in) {
      float& weight = layer.weight[out * inputs + in];
      const double of_scaled = encoding.spread.empty() ? double{weight} : double{weight} / encoding.spread[in];
      if (!encoding.center.empty()) bias -= of_scaled * encoding.center[in];
      weight = static_cast<float>(of_scaled * scale);
    }
    layer.bias[out] = static_cast<float>(bias);
  }
  return layer;
}

StoredParameter& named(std::vector<StoredParameter>& parameters, const char* name) {
  const auto found = std::ranges::find(parameters, name, &StoredParameter::name);
  RUN_CHECK(found != parameters.end(), ErrorKind::kUsage,
            "--fold-normalization needs a parameter {} of the first layer, which the model does not have{}", name,
            std::string_view(name).ends_with("bias") ? "; set model.bias: true" : "");
  return *found;
}

void check_foldable(const schema::Recipe* recipe) {
  RUN_CHECK(recipe != nullptr, ErrorKind::kStore, "--fold-normalization needs the recipe of the run, which is damaged");
  const schema::ModelType type = recipe->model.type;
  RUN_CHECK(
      type == schema::ModelType::kLinear || type == schema::ModelType::kMlp, ErrorKind::kUsage,
      "--fold-normalization needs a model of type linear or mlp, whose first layer gets the features; the model of "
      "this run comes from a hook: apply center and spread of the file's metadata instead");
}

}  // namespace

std::vector<std::string> export_model(const ExportedModel& model, const std::string& file, int64_t max_shard_size) {
  data::Encoding encoding = checkpoint_of(model.state).encoding;
  std::vector<StoredParameter> parameters = parameters_of(model.state);
  double scale = model.recipe != nullptr ? model.recipe->data.train.scale.value_or(1) : 1;
  FirstLayer layer;
  if (model.folds_normalization) {
    check_foldable(model.recipe);
    StoredParameter &weight = named(parameters, "0.weight"), &bias = named(parameters, "0.bias");
    layer = folded({floats_of(weight.values), floats_of(bias.values)}, encoding, scale);
    weight.values = std::as_bytes(std::span(layer.weight));
    bias.values = std::as_bytes(std::span(layer.bias));
    encoding.normalize = schema::Normalize::kNone;
    encoding.center = encoding.spread = encoding.fill = {};
    scale = 1;
  }
  std::vector<formats::NamedTensor> tensors;
  for (const StoredParameter& parameter : parameters)
    tensors.push_back({parameter.name, backends::DType::kF32, parameter.shape, parameter.values});
  return formats::write_model(file, std::move(tensors), max_shard_size, model_metadata(encoding, scale));
}

}  // namespace runner::train
