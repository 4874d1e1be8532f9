#include "runner/model/hub_config.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "runner/data/text.h"
#include "runner/model/model_def.h"
#include "runner/model/models.h"
#include "runner/model/pretrained_folder.h"
#include "runner/text/tokenizer_file.h"
#include "schema/base/error.h"
#include "schema/base/suggest.h"

namespace runner::nn {
namespace {

// Adds "rope_parameters.rope_theta" to the object rope_parameters.
void add(json::Object& config, const std::string& name, const json::Value& value) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return config.emplace_back(name, value), void();
  const std::string outer = name.substr(0, dot);
  auto at = std::ranges::find(config, outer, &json::Object::value_type::first);
  if (at == config.end()) at = config.insert(config.end(), {outer, json::Object{}});
  json::Object members = json::members_of(at->second);
  members.emplace_back(name.substr(dot + 1), value);
  at->second = std::move(members);
}

// Returns the value of the field as config.json spells it; null if there is none.
json::Value config_value(const ConfigKey& key, const schema::ReadResult& recipe, const SizesByField& sizes) {
  const schema::Leaf* const leaf = recipe.find(key.field);
  if (leaf == nullptr || leaf->value.is_null()) {
    const auto size = sizes.find(key.field);
    return size == sizes.end() ? json::Value() : json::Value(size->second);
  }
  if (key.choices.empty()) return leaf->value;
  const std::string choice = json::text_of(leaf->value);
  for (const auto& [word, of_field] : key.choices)
    if (of_field == choice) return word;
  fail(ErrorKind::kUsage, "{} is {}, which models of this type in transformers do not compute; write FILE.safetensors",
       key.field, choice);
}

// Returns the config.json of model.pretrained; null if there is none, or it is gone.
json::Value pretrained_config(const schema::ModelSpec& spec) {
  if (spec.pretrained.empty()) return {};
  try {
    return read_hub_config(find_pretrained(spec.pretrained));
  } catch (const Error&) {
    return {};
  }
}

// Adds the special tokens of a model: those of the pretrained model, or else of the tokenizer. A key that is missing
// from the file of a language model would be that of transformers.
void add_special_ids(json::Object& config, const schema::Recipe& recipe, bool is_causal) {
  const json::Value pretrained = pretrained_config(recipe.model);
  const std::string path = data::tokenizer_path(recipe.data);
  std::error_code ignored;
  const bool has_tokenizer = std::filesystem::exists(path, ignored);
  std::optional<text::Tokenizer> tokenizer;  // opened if the pretrained model lacks an id
  const auto add = [&](const char* key, std::optional<int32_t> (text::Tokenizer::*token)() const) {
    json::Value id = json::member(pretrained, key);
    if (id.is_null() && has_tokenizer) {
      if (!tokenizer) tokenizer = text::open_tokenizer(path);
      if (const std::optional<int32_t> own = ((*tokenizer).*token)()) id = int64_t{*own};
    }
    if (is_causal || !id.is_null()) config.emplace_back(key, std::move(id));
  };
  if (is_causal) add("bos_token_id", &text::Tokenizer::begin_token);
  if (is_causal) add("eos_token_id", &text::Tokenizer::end_token);
  add("pad_token_id", &text::Tokenizer::padding_token);
}

const std::string* word_of_no_value(const ConfigKey& key) {
  for (const auto& [word, choice] : key.choices)
    if (choice.empty()) return &word;
  return nullptr;
}

// "gpt, llama or encoder".
std::string names_of_pretrained_types() {
  std::vector<std::string> names;
  for (const schema::ModelType type : pretrained_types()) names.emplace_back(name_of(type));
  return schema::join_or(names);
}

void add_classes(json::Object& config, const data::Encoding& data) {
  const std::vector<std::string>& names = data.class_names;
  json::Object names_by_id, ids_by_name;
  for (int64_t i = 0; i < data.outputs; ++i) {
    const std::string name = !names.empty() ? names[static_cast<size_t>(i)] : fmt::format("LABEL_{}", i);
    names_by_id.emplace_back(std::to_string(i), name);
    ids_by_name.emplace_back(name, i);
  }
  config.emplace_back("id2label", std::move(names_by_id));
  config.emplace_back("label2id", std::move(ids_by_name));
}

}  // namespace

std::string hub_config_text(const schema::ReadResult& recipe, const data::Encoding& data) {
  const schema::ModelSpec& spec = recipe.recipe.model;
  const ModelDef* const model = find_model(spec.type);
  RUN_CHECK(model != nullptr && model->pretrained != nullptr, ErrorKind::kUsage,
            "a folder for transformers needs a model of type {}, but this one is of type {}; write FILE.safetensors",
            names_of_pretrained_types(), name_of(spec.type));
  const PretrainedDef& def = model->pretrained();
  const SizesByField sizes = def.sizes(spec, data);
  const HubHead head = def.head_of(spec);
  json::Object config{{"architectures", json::List{head.architecture}},
                      {"model_type", def.model_type},
                      {"dtype", "float32"},
                      {"torch_dtype", "float32"}};  // the older name
  for (const ConfigKey& key : def.keys) {
    const json::Value value = config_value(key, recipe, sizes);
    if (!value.is_null())
      for (const std::string& name : key.names) add(config, name, value);
    else if (const std::string* const word = word_of_no_value(key))
      add(config, key.names.back(), *word);
  }
  for (const auto& [name, value] : def.fixed) add(config, name, value);
  add_special_ids(config, recipe.recipe, data.token_labels == data::TokenLabels::kNext);
  if (head.has_labels && !data.predicts_tokens()) add_classes(config, data);
  if (!head.problem_type.empty()) config.emplace_back("problem_type", head.problem_type);
  return json::text(config);
}

}  // namespace runner::nn
