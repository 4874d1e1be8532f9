#include "runner/train/run/exported_model.h"

#include <algorithm>
#include <span>

#include "backends/exec/cpu_device.h"
#include "runner/data/encoding.h"
#include "runner/data/load.h"
#include "runner/formats/model_files.h"
#include "runner/formats/onnx.h"
#include "runner/model/initial_weights.h"
#include "runner/train/engine/trainer.h"
#include "runner/train/loop/run_stand_in.h"
#include "runner/train/run/checkpoint/model_metadata.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// The first layer of a model of the recipe: y = W x + b.
struct FirstLayer {
  std::vector<float> weight, bias;  // (outputs, inputs), (outputs)
};

// Returns the layer that computes of raw features x what `layer` computes of (x · scale − center) / spread: the weights
// W · scale / spread, and the bias b − W (center / spread). Computed in f64.
FirstLayer folded(FirstLayer layer, const data::Encoding& encoding, double scale) {
  const size_t inputs = layer.weight.size() / layer.bias.size(), shared = encoding.features_per_statistic();
  for (size_t out = 0; out < layer.bias.size(); ++out) {
    double bias = double{layer.bias[out]};
    for (size_t in = 0; in < inputs; ++in) {
      float& weight = layer.weight[out * inputs + in];
      const double of_scaled = encoding.spread.empty() ? double{weight} : double{weight} / encoding.spread[in / shared];
      if (!encoding.center.empty()) bias -= of_scaled * encoding.center[in / shared];
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

void check_has_features(const data::Encoding& encoding) {
  RUN_CHECK(!encoding.has_tokens(), ErrorKind::kUsage,
            "--fold-normalization: the model gets tokens of a text, which have no normalisation; remove the option");
}

void check_foldable(const schema::Recipe* recipe, const data::Encoding& encoding) {
  check_has_features(encoding);
  RUN_CHECK(recipe != nullptr, ErrorKind::kStore, "--fold-normalization needs the recipe of the run, which is damaged");
  const schema::ModelType type = recipe->model.type;
  RUN_CHECK(
      type == schema::ModelType::kLinear || type == schema::ModelType::kMlp, ErrorKind::kUsage,
      "--fold-normalization needs a model of type linear or mlp, whose first layer gets the features: for other models "
      "apply scale, center and spread of the file's metadata, or write an .onnx file");
}

}  // namespace

bool has_average(const store::LoadedState& state) {
  return std::ranges::any_of(parameters_of(state, /*averaged=*/false), [&](const StoredParameter& parameter) {
    return average_of(state, parameter.name) != nullptr;
  });
}

std::vector<std::string> export_model(const ExportedModel& model, const std::string& file, int64_t max_shard_size,
                                      const formats::WriteParts& write) {
  data::Encoding encoding = checkpoint_of(model.state).encoding;
  std::vector<StoredParameter> parameters = parameters_of(model.state, model.averaged);
  double scale = model.recipe != nullptr ? model.recipe->data.train.scale.value_or(1) : 1;
  FirstLayer layer;
  if (model.folds_normalization) {
    check_foldable(model.recipe, encoding);
    StoredParameter &weight = named(parameters, "0.weight"), &bias = named(parameters, "0.bias");
    layer = folded({weight.floats(), bias.floats()}, encoding, scale);
    weight.values = std::as_bytes(std::span(layer.weight));
    bias.values = std::as_bytes(std::span(layer.bias));
    encoding.normalize = schema::Normalize::kNone;
    encoding.center = encoding.spread = {};
    scale = 1;
  }
  std::vector<formats::NamedTensor> tensors;
  for (const StoredParameter& parameter : parameters)
    tensors.push_back({parameter.name, backends::DType::kF32, parameter.shape, parameter.values});
  for (const StoredBuffer& buffer : stored_buffers(model.state, model.averaged))
    tensors.push_back({buffer.name, buffer.type.dtype, buffer.type.shape, buffer.values});
  return formats::write_model(file, std::move(tensors), max_shard_size, model_metadata(encoding, scale), write);
}

namespace {

struct RecordedForward {
  backends::Program program;
  std::vector<backends::ValueId> parameters;  // by ParameterId
  std::vector<backends::ValueId> buffers;     // by BufferId
};

RecordedForward record_forward(const StepBuilder& builder, int64_t batch) {
  StepBuilder::Recorded recorded;
  recorded.host.fixed = true;
  const auto no_values = [](const StepBuilder::Recorded&, backends::ValueId) -> std::vector<double> {
    fail(ErrorKind::kRun, "the hook reads a value of a tensor, such as with item(), but an ONNX graph has no values");
  };
  builder.record_into(recorded, batch, /*training=*/false, no_values);
  RecordedForward forward{{}, recorded.parameters, recorded.buffers};
  forward.program = builder.forward(std::move(recorded), /*labelled=*/false);
  return forward;
}

// A recipe of the same model that computes in f32.
schema::Recipe in_f32(schema::Recipe recipe) {
  recipe.backend = schema::Backend::kCpu;
  recipe.mixed_precision = schema::Precision::kNo;
  recipe.num_processes = 1;
  nn::read_no_weights(recipe.model);  // the checkpoint has the weights
  return recipe;
}

}  // namespace

std::string onnx_file(const ExportedModel& model, std::unique_ptr<Hooks> hooks, Print print) {
  RUN_CHECK(model.recipe != nullptr, ErrorKind::kStore,
            "an ONNX file needs the recipe of the run, which is damaged; write a .safetensors file");
  const schema::Recipe recipe = in_f32(*model.recipe);
  const Checkpoint checkpoint = checkpoint_of(model.state);
  const data::Encoding encoding = data::completed(checkpoint.encoding, recipe.train);
  backends::ModelledDevice device(backends::make_cpu_device(1, {}));
  const RunStandIn run(hooks.get(), ended_run(checkpoint, std::move(print)));
  const Trainer trainer(recipe, encoding, device, hooks.get());
  constexpr int64_t kOneBatch = 2, kOtherBatch = 3;
  const RecordedForward one = record_forward(trainer.builder(), kOneBatch),
                        other = record_forward(trainer.builder(), kOtherBatch);
  const double scale = recipe.data.train.scale.value_or(1);
  formats::OnnxExport exported{.first = {one.program, kOneBatch},
                               .second = {other.program, kOtherBatch},
                               .weights = {},
                               .inputs = {},
                               .output = encoding.label_kind == data::LabelKind::kClass ? "logits" : "outputs",
                               .metadata = model_metadata(encoding, scale)};
  for (const data::SampleInput& input : encoding.inputs()) exported.inputs.emplace_back(input.name);
  exported.metadata.erase("format");
  if (model.folds_normalization) {
    check_has_features(encoding);
    exported.scaling = {scale, encoding.center, encoding.spread};
    for (const char* const key : {"scale", "normalize", "center", "spread"}) exported.metadata.erase(key);
  }
  const std::vector<StoredParameter> stored = parameters_of(model.state, model.averaged);
  const auto parameters = trainer.model().parameters.parameters();
  for (size_t id = 0; id < parameters.size(); ++id) {
    const auto found = std::ranges::find(stored, parameters[id].name, &StoredParameter::name);
    RUN_CHECK(found != stored.end() && found->shape == parameters[id].shape, ErrorKind::kStore,
              "state {} is of another model: expected parameter {} of shape {}", model.state.info.id,
              parameters[id].name, parameters[id].shape.to_string());
    exported.weights.push_back({one.parameters[id], found->name, found->shape, found->values});
  }
  const std::vector<StoredBuffer> kept_buffers = stored_buffers(model.state, model.averaged);
  const auto buffers = trainer.model().parameters.model_buffers();
  for (size_t id = 0; id < buffers.size(); ++id) {
    if (buffers[id].is_internal) continue;
    const auto found = std::ranges::find(kept_buffers, buffers[id].name, &StoredBuffer::name);
    RUN_CHECK(found != kept_buffers.end() && found->type == buffers[id].type, ErrorKind::kStore,
              "state {} is of another model: expected buffer {} of shape {}", model.state.info.id, buffers[id].name,
              buffers[id].type.shape.to_string());
    if (!buffers[id].is_count())
      exported.weights.push_back({one.buffers[id], found->name, found->type.shape, found->values});
  }
  return formats::onnx_model(exported);
}

}  // namespace runner::train
