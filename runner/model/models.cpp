#include "runner/model/models.h"

#include <algorithm>
#include <charconv>

#include "runner/model/lora.h"
#include "runner/model/model_def.h"
#include "schema/base/error.h"

namespace runner::nn {
namespace {

#define RUNNER_MODEL_ROW(Name) &k##Name##Model,
constexpr const ModelDef* kModels[] = {RUNNER_MODELS(RUNNER_MODEL_ROW)};
#undef RUNNER_MODEL_ROW

const ModelDef& def_of(schema::ModelType type) {
  const ModelDef* def = find_model(type);
  RUN_ASSERT(def != nullptr);  // the recipe reader rejects types that cannot be built yet
  return *def;
}

}  // namespace

const ModelDef* find_model(schema::ModelType type) {
  const auto found = std::ranges::find_if(kModels, [&](const ModelDef* def) { return def->type == type; });
  return found != std::end(kModels) ? *found : nullptr;
}

void check_inputs(const ModelDef& def, const data::Encoding& data) {
  const InputSpec& accepts = def.inputs;
  const std::string_view name = name_of(def.type);
  RUN_CHECK(accepts.kind == ModelInputKind::kTokens || !data.has_tokens(), ErrorKind::kRecipe,
            "the recipe's models take numbers, but samples of data.train are tokens of text; add a function model with "
            "nn.Embedding to the hook");
  RUN_CHECK(accepts.kind == ModelInputKind::kNumbers || data.has_tokens(), ErrorKind::kRecipe,
            "model.type {} needs tokens, but data.train has numbers; use data.train.format: text", name);
  const int axes = data.feature_shape.rank();
  RUN_CHECK(axes >= accepts.least_axes && axes <= accepts.most_axes, ErrorKind::kRecipe,
            "model.type {} needs samples with {} axes, but those of data.train have shape {}", name,
            accepts.least_axes == accepts.most_axes ? fmt::format("{}", accepts.least_axes)
                                                    : fmt::format("{} to {}", accepts.least_axes, accepts.most_axes),
            data.feature_shape.to_string());
  const std::vector<data::SampleInput> inputs = data.inputs();
  const std::span<const std::string_view> others = accepts.others;
  for (const std::string_view other : others)
    RUN_CHECK(std::ranges::find(inputs, other, &data::SampleInput::name) != inputs.end(), ErrorKind::kRecipe,
              "model.type {} needs an input {}, which data.train does not have", name, other);
  const bool per_token = data.has_token_labels();
  RUN_CHECK(accepts.outputs == OutputsPer::kByHead || (accepts.outputs == OutputsPer::kToken) == per_token,
            ErrorKind::kRecipe, "model.type {} needs one label per {}, but data.train has one per {}", name,
            per_token ? "sample" : "token", per_token ? "token" : "sample");
}

void check_model(const schema::ModelSpec& spec, const data::Encoding& data, bool has_own_loss) {
  const ModelDef& def = def_of(spec.type);
  check_inputs(def, data);
  if (def.check != nullptr) def.check(spec, data);
  if (def.check_labels != nullptr && !has_own_loss) def.check_labels(spec, data);
}

int64_t distance_from_outputs(const schema::ModelSpec& spec, std::string_view name) {
  const TransformerNames* const names = def_of(spec.type).transformer;
  RUN_ASSERT(names != nullptr);  // the recipe reader accepts keys about layers for transformers only
  const std::span<const std::string_view> embeddings = names->embeddings;
  if (std::ranges::any_of(embeddings, [&](std::string_view start) { return name.starts_with(start); }))
    return spec.layers + 1;
  const std::string_view layers = names->layers;
  if (!name.starts_with(layers)) return 0;
  const std::string_view number = name.substr(layers.size());
  int64_t layer = 0;
  std::from_chars(number.data(), number.data() + number.size(), layer);
  return spec.layers - layer;
}

std::vector<schema::ModelType> pretrained_types() {
  std::vector<schema::ModelType> types;
  for (const ModelDef* const def : kModels)
    if (def->pretrained != nullptr) types.push_back(def->type);
  return types;
}

Model build_model(const schema::ModelSpec& spec, const data::Encoding& data) {
  Model model{.module = def_of(spec.type).build(spec, data), .parameters = {}};
  if (spec.lora) model.parameters.adapt(*spec.lora);
  model.module->declare(model.parameters, "");
  if (spec.lora) freeze_base(model.parameters);
  return model;
}

}  // namespace runner::nn
