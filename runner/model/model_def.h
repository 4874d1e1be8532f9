// The definition of a model type of the recipe: the inputs it accepts, its checks, and how to build it.
//
// Each type has one definition, in a file of its own, and a row in RUNNER_MODELS; its fields are in schema/fields.yaml.
// There are no defaults: a definition that leaves out a field does not compile, a row without a definition does not
// link. Definitions are constants; thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "runner/data/encoding.h"
#include "runner/model/module.h"
#include "runner/model/pretrained_def.h"
#include "schema/base/required.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

// Contents of the first input of a model.
enum class ModelInputKind {
  kNumbers,  // f32 features of a shape
  kTokens,   // i64 ids in [0, vocabulary), (T) for each sample
};

// Unit that has an output of the model and a label of the data.
enum class OutputsPer { kSample, kToken, kByHead };  // kByHead: as model.head says

// The data that a model type accepts.
struct InputSpec {
  Required<ModelInputKind> kind;
  Required<int> least_axes, most_axes;                 // of one sample of the first input
  Required<std::span<const std::string_view>> others;  // names of inputs that it needs in addition to the first
  Required<OutputsPer> outputs;
};
inline constexpr int kAnyAxes = backends::Shape::kMaxRank - 1;  // a batch has one more axis
inline constexpr std::span<const std::string_view> kNoOthers{};

// Samples of numbers of any shape, with outputs per sample.
inline constexpr InputSpec kNumbersOfAnyShape{.kind = ModelInputKind::kNumbers,
                                              .least_axes = 0,
                                              .most_axes = kAnyAxes,
                                              .others = kNoOthers,
                                              .outputs = OutputsPer::kSample};

// Images (H, W) or (C, H, W), with outputs per sample.
inline constexpr InputSpec kImages{.kind = ModelInputKind::kNumbers,
                                   .least_axes = 2,
                                   .most_axes = 3,
                                   .others = kNoOthers,
                                   .outputs = OutputsPer::kSample};

// Starts of parameter names in a transformer. All other parameters belong to its head.
struct TransformerNames {
  Required<std::string_view> layers;  // of layer i: followed by "i."
  Required<std::span<const std::string_view>> embeddings;
};
inline constexpr std::nullptr_t kNoTransformer = nullptr;

struct ModelDef {
  Required<schema::ModelType> type;
  InputSpec inputs;
  // Throws Error(kRecipe) if the fields do not fit each other or the data.
  Required<void (*)(const schema::ModelSpec& spec, const data::Encoding& data)> check;
  // Throws Error(kRecipe) if the labels do not fit the outputs in more than InputSpec says.
  Required<void (*)(const schema::ModelSpec& spec, const data::Encoding& data)> check_labels;
  // Returns the model, which computes (B, data.outputs) from the first input, or (B, T, data.outputs) for
  // tokens with a label each.
  Required<ModulePtr (*)(const schema::ModelSpec& spec, const data::Encoding& data)> build;
  // Null for other models. Those that predict the next token (schema/recipe/causal_models.h) can be recorded with a
  // cache (key_cache.h).
  Required<const TransformerNames*> transformer;
  // Pattern of the parameters of the output layer that model.new_head initializes instead of reading them from
  // model.init_from; empty: the type has no such key, or has model.pretrained.
  Required<std::string_view> output_layer;
  // The checkpoints that model.pretrained reads; null: none.
  Required<const PretrainedDef& (*)()> pretrained;
};
inline constexpr std::nullptr_t kNoCheck = nullptr;
inline constexpr std::string_view kNoNewHead{};
inline constexpr std::nullptr_t kNotPretrained = nullptr;

// Null for a type that cannot be built yet, and for that of a hook.
const ModelDef* find_model(schema::ModelType type);

// Throws Error(kRecipe) if the model type does not accept the inputs of the data, or the unit of the labels.
void check_inputs(const ModelDef& def, const data::Encoding& data);

// The model types of the recipe, one row each: the enumerator of schema::ModelType without its k.
#define RUNNER_MODELS(MODEL) \
  MODEL(Mlp)                 \
  MODEL(Linear)              \
  MODEL(Cnn)                 \
  MODEL(Resnet)              \
  MODEL(Gpt)                 \
  MODEL(Llama)               \
  MODEL(Encoder)

#define RUNNER_DECLARE_MODEL(Name) extern const ModelDef k##Name##Model;
RUNNER_MODELS(RUNNER_DECLARE_MODEL)
#undef RUNNER_DECLARE_MODEL

}  // namespace runner::nn
