#include "runner/model/models.h"

#include "schema/base/error.h"

namespace runner::nn {
namespace {

// Flattens the samples before the inner module without adding a level to the parameter names.
class OverFlatSamples : public Module {
 public:
  explicit OverFlatSamples(ModulePtr inner) : inner_(std::move(inner)), flatten_(flatten()) {}

  void add_parameters(ParameterSet& parameters, const std::string& prefix) override {
    inner_->declare(parameters, prefix);
  }
  Value record(Forward& context, Value x) const override {
    return inner_->forward(context, flatten_->forward(context, x));
  }
  std::span<const ModulePtr> members() const override { return inner_->members(); }
  std::string text() const override { return inner_->text(); }

 private:
  ModulePtr inner_, flatten_;
};

ModulePtr mlp(const schema::ModelSpec& spec, int64_t in, int64_t out) {
  std::vector<ModulePtr> layers;
  for (const int64_t width : spec.hidden) {
    layers.push_back(linear(in, width, spec.bias));
    if (spec.layer_norm) layers.push_back(layer_norm(width));
    layers.push_back(activation(spec.activation));
    if (spec.dropout > 0) layers.push_back(dropout(spec.dropout));
    in = width;
  }
  layers.push_back(linear(in, out, spec.bias));
  return sequential(std::move(layers));
}

ModulePtr single_linear(const schema::ModelSpec& spec, int64_t in, int64_t out) {
  std::vector<ModulePtr> layers;
  layers.push_back(linear(in, out, spec.bias));
  return sequential(std::move(layers));
}

}  // namespace

Model build_model(const schema::ModelSpec& spec, const backends::Shape& features, int64_t outputs) {
  const int64_t in = features.elements();
  ModulePtr inner;
  switch (spec.type) {
    case schema::ModelType::kMlp: inner = mlp(spec, in, outputs); break;
    case schema::ModelType::kLinear: inner = single_linear(spec, in, outputs); break;
    default: fail(ErrorKind::kRecipe, "model.type: this type cannot be built yet; available: mlp, linear");
  }
  Model model{.module = std::make_unique<OverFlatSamples>(std::move(inner)), .parameters = {}};
  model.module->declare(model.parameters, "");
  return model;
}

}  // namespace runner::nn
