#include "runner/train/run/exported_adapter.h"

#include <algorithm>
#include <limits>
#include <set>

#include "runner/formats/model_files.h"
#include "runner/model/lora.h"
#include "runner/model/model_def.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::train {
namespace {

using Names = std::set<std::string>;
using Parameters = std::vector<StoredParameter>;

std::string_view end_of(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

// Returns the paths of the linear layers that have an adapter.
Names adapted_layers(const Parameters& parameters) {
  Names layers;
  for (const StoredParameter& parameter : parameters)
    if (parameter.name.ends_with(nn::kLoraA))
      layers.insert(parameter.name.substr(0, parameter.name.size() - nn::kLoraA.size() - 1));
  return layers;
}

// PEFT adapts each layer whose path ends with a target. Returns the last parts of the paths if no other layer has one
// of them, else the paths.
Names target_modules(const schema::ModelSpec& spec, const Parameters& parameters) {
  const Names layers = adapted_layers(parameters);
  Names ends, paths;
  for (const std::string& layer : layers) {
    ends.emplace(end_of(layer));
    paths.insert(nn::name_in_hub(spec, layer));
  }
  constexpr std::string_view kWeight = ".weight";
  for (const StoredParameter& parameter : parameters) {
    if (nn::is_of_adapter(parameter.name) || !parameter.name.ends_with(kWeight)) continue;
    const std::string layer = parameter.name.substr(0, parameter.name.size() - kWeight.size());
    if (!layers.contains(layer) && ends.contains(std::string(end_of(layer)))) return paths;
  }
  return ends;
}

// Returns the patterns of the modules that the adapter has whole. PEFT expects the classifier in every adapter of a
// classifier, trained or not.
std::vector<std::string> whole_modules(const schema::ModelSpec& spec) {
  std::vector<std::string> modules = spec.lora->modules_to_save;
  const nn::PretrainedDef& def = nn::find_model(spec.type)->pretrained();
  if (def.head_of(spec).has_labels)
    for (const std::string& pattern : def.outputs) modules.push_back(nn::module_of_pattern(pattern));
  return modules;
}

Names saved_modules(const schema::ModelSpec& spec, const Parameters& parameters) {
  const std::vector<std::string> whole = whole_modules(spec);
  Names modules;
  for (const StoredParameter& parameter : parameters)
    if (const std::string module = nn::module_of(whole, parameter.name); !module.empty())
      modules.insert(nn::name_in_hub(spec, module));
  return modules;
}

std::string adapter_config_text(const schema::ModelSpec& spec, const Parameters& parameters) {
  const schema::Lora& lora = *spec.lora;
  const nn::PretrainedDef& def = nn::find_model(spec.type)->pretrained();
  return json::text(json::Object{
      {"base_model_name_or_path", json::or_null(spec.pretrained)},
      {"bias", "none"},
      {"fan_in_fan_out", !def.conv1d.empty()},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"modules_to_save", json::list_of(saved_modules(spec, parameters))},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"target_modules", json::list_of(target_modules(spec, parameters))},
      {"task_type", json::or_null(def.head_of(spec).peft_task)},
      {"use_rslora", false},
  });
}

}  // namespace

std::vector<std::string> export_adapter(const ExportedModel& model, const std::string& folder,
                                        const formats::WriteParts& write) {
  RUN_CHECK(model.recipe != nullptr, ErrorKind::kStore, "--adapter needs the recipe of the run, which is damaged");
  const schema::ModelSpec& spec = model.recipe->model;
  RUN_CHECK(spec.lora, ErrorKind::kUsage,
            "--adapter: the recipe of the run has no model.lora, so there is no adapter; write the model with --model "
            "FILE");
  const Parameters parameters = parameters_of(model.state, model.averaged);
  const std::vector<std::string> whole = whole_modules(spec);
  std::vector<formats::NamedTensor> tensors;
  for (const StoredParameter& parameter : parameters)
    if (nn::is_of_adapter(parameter.name) || nn::is_in_module(whole, parameter.name))
      tensors.push_back({"base_model.model." + nn::name_in_hub(spec, parameter.name), backends::DType::kF32,
                         parameter.shape, parameter.values});
  formats::create_folder(folder);
  std::vector<std::string> files =
      formats::write_model(join_path(folder, "adapter_model.safetensors"), std::move(tensors),
                           std::numeric_limits<int64_t>::max(), {{"format", "pt"}}, write);
  files.push_back(join_path(folder, "adapter_config.json"));
  const std::string config = adapter_config_text(spec, parameters);
  const std::string_view parts[] = {config};
  write(files.back(), parts, formats::FileKind::kJson);
  return files;
}

namespace {

std::vector<float> floats_of_parameter(const Parameters& parameters, const std::string& name) {
  const auto found = std::ranges::find(parameters, name, &StoredParameter::name);
  RUN_CHECK(found != parameters.end(), ErrorKind::kStore, "the state has no parameter {}", name);
  return found->floats();
}

}  // namespace

MergedParameters::MergedParameters(std::vector<StoredParameter> parameters, const schema::Lora& lora) {
  const Names layers = adapted_layers(parameters);
  for (const StoredParameter& parameter : parameters) {
    if (nn::is_of_adapter(parameter.name)) continue;
    StoredParameter& merged = parameters_.emplace_back(parameter);
    const std::string layer = parameter.name.substr(0, parameter.name.rfind('.'));
    if (!parameter.name.ends_with(".weight") || !layers.contains(layer)) continue;
    std::vector<float>& weight = merged_.emplace_back(parameter.floats());
    const auto of_layer = [&](std::string_view name) {
      return floats_of_parameter(parameters, fmt::format("{}.{}", layer, name));
    };
    nn::merge_adapter(weight, of_layer(nn::kLoraA), of_layer(nn::kLoraB), nn::scale_of(lora), lora.rank);
    merged.values = std::as_bytes(std::span(weight));
  }
}

}  // namespace runner::train
