#include "runner/model/pretrained.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/formats/model_files.h"
#include "runner/model/model_def.h"
#include "runner/model/models.h"
#include "runner/model/pretrained_folder.h"
#include "runner/model/pretrained_tensors.h"
#include "runner/text/tokenizer_file.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/recipe/field_words.h"

namespace runner::nn {
namespace {

constexpr const char* kKey = "model.pretrained";

std::string list_text(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

[[noreturn]] void refuse(const PretrainedFiles& files, const std::string& text) {
  fail(ErrorKind::kRecipe, "{}: {}: {}", kKey, files.config, text);
}

// Returns `config` with the members of inner objects as its own: "rope_parameters.rope_theta".
json::Value with_flat_members(const json::Value& config) {
  json::Object flat;
  for (const auto& [key, value] : json::members_of(config)) {
    if (json::members_of(value).empty()) flat.emplace_back(key, value);
    for (const auto& [name, inner] : json::members_of(value)) flat.emplace_back(fmt::format("{}.{}", key, name), inner);
  }
  return flat;
}

bool is_set(const json::Value& value) {
  return !value.is_null() && value != json::Value(false);
}

bool are_equal(const json::Value& a, const json::Value& b) {
  const std::optional<double> x = json::number_of(a), y = json::number_of(b);
  return x && y ? *x == *y : a == b;
}

// Whether a key that is not in the table may change what a model computes.
bool may_change_results(std::string_view key) {
  return std::ranges::any_of(kKeysOfResults, [&](std::string_view pattern) { return matches(pattern, key); });
}

void check_fixed(const PretrainedDef& def, const PretrainedFiles& files, const json::Value& config) {
  for (const auto& [name, value] : def.fixed) {
    const json::Value& got = json::member(config, name);
    if (!got.is_null() && !are_equal(got, value))
      refuse(files,
             fmt::format("{} is {}, but the model computes {} only", name, json::compact(got), json::compact(value)));
  }
  const auto is_known = [&](const std::string& key) {
    return std::ranges::find(def.fixed, key, &FixedKey::name) != def.fixed.end() ||
           std::ranges::any_of(def.keys,
                               [&](const ConfigKey& k) { return std::ranges::find(k.names, key) != k.names.end(); });
  };
  for (const auto& [key, value] : json::members_of(config))
    if (is_set(value) && may_change_results(key) && !is_known(key))
      refuse(files, fmt::format("{} is {}, which the model does not compute", key, json::compact(value)));
}

// Returns the first of the key's names that config.json has a value for.
const std::string& name_in(const json::Value& config, const ConfigKey& key) {
  const auto is_there = [&](const std::string& name) { return !json::member(config, name).is_null(); };
  const auto found = std::ranges::find_if(key.names, is_there);
  return found == key.names.end() ? key.names.front() : *found;
}

// Returns the value of the field by config.json; null if it says none.
json::Value value_of(const ConfigKey& key, const PretrainedFiles& files, const json::Value& config, bool is_decided) {
  std::vector<std::string> texts;
  json::Value value;
  for (const std::string& name : key.names) {
    const json::Value& got = json::member(config, name);
    if (got.is_null()) continue;
    if (!value.is_null() && !are_equal(value, got) && !is_decided)
      refuse(files, fmt::format("{} have different values, {} and {}; write {}", list_text(key.names),
                                json::compact(value), json::compact(got), key.field));
    value = got;
  }
  if (value.is_null()) return key.fallback;
  if (key.choices.empty()) return value;
  const auto choice = key.choices.find(json::text_of(value));
  if (choice == key.choices.end()) {
    std::vector<std::string> words;
    for (const auto& [word, ignored] : key.choices) words.push_back(word);
    refuse(files, fmt::format("{} is {}, but the model computes {} only", name_in(config, key), json::compact(value),
                              schema::join_or(words)));
  }
  return choice->second.empty() ? json::Value() : json::Value(choice->second);
}

// The value as the type of the field.
json::Value as_field(const schema::Field& field, const json::Value& value, const std::string& name,
                     const PretrainedFiles& files) {
  const std::optional<double> number = json::number_of(value);
  switch (field.type) {
    case schema::FieldType::kInteger:
      if (value.integer() != nullptr && *value.integer() >= 1) return value;
      refuse(files, fmt::format("{} is {}, expected an integer of at least 1", name, json::compact(value)));
    case schema::FieldType::kNumber:
      if (number && field.range.has(*number)) return *number;
      refuse(files, fmt::format("{} is {}, expected a number {}", name, json::compact(value), range_phrase(field)));
    case schema::FieldType::kBoolean:
      if (value.boolean() != nullptr) return value;
      refuse(files, fmt::format("{} is {}, expected true or false", name, json::compact(value)));
    default: return value;
  }
}

// A damaged number of layers would build a model without end.
void check_layers(const PretrainedDef& def, const PretrainedFiles& files, const json::Value& config) {
  const auto key = std::ranges::find(def.keys, "model.layers", &ConfigKey::field);
  const int64_t* const layers = json::member(config, key->names.front()).integer();
  constexpr int64_t kMany = 1000;
  if (layers == nullptr || *layers < kMany) return;
  const auto tensors = std::ssize(formats::ModelTensors(files.weights).tensors());
  if (*layers > tensors)
    refuse(files, fmt::format("{} is {}, but {} has {} tensors", key->names.front(), *layers, files.weights, tensors));
}

struct Applied {
  std::string folder;  // of config.json
  std::vector<std::pair<std::string, json::Value>> values;
  std::vector<schema::Diagnostic> faults;
};

// Adds the names of the classes, in the order of the output layer.
void add_classes(const schema::ReadResult& recipe, const PretrainedFiles& files, const std::vector<std::string>& names,
                 Applied& applied) {
  constexpr const char* kClasses = "data.classes";
  const schema::ModelSpec& spec = recipe.recipe.model;
  const HubHead head = find_model(spec.type)->pretrained().head_of(spec);
  const bool has_classes = head.has_labels && head.problem_type.empty();
  const schema::DataFormat format = recipe.recipe.data.train.format;
  const bool may_be_named = format != schema::DataFormat::kSynthetic && format != schema::DataFormat::kText;
  if (!has_classes || spec.new_head || !may_be_named || names.empty()) return;
  const std::vector<std::string>& written = recipe.recipe.data.classes;
  if (written.empty()) {
    applied.values.emplace_back(kClasses, json::list_of(names));
    return;
  }
  if (written == names) return;
  applied.faults.push_back(recipe.fault(schema::ErrorId::kConflictingKeys, kClasses,
                                        fmt::format("data.classes is {}, but id2label of {} is {}",
                                                    fmt::join(written, ", "), files.config, fmt::join(names, ", "))));
  applied.faults.back().hint = "remove it, or set model.new_head: true for a new output layer";
}

Applied values_by_config(const schema::ReadResult& recipe) {
  const schema::ModelSpec& spec = recipe.recipe.model;
  const ModelDef* const model = find_model(spec.type);
  RUN_ASSERT(model != nullptr && model->pretrained != nullptr);  // the recipe reader rejects other types
  const PretrainedDef& def = model->pretrained();
  const PretrainedFiles files = find_pretrained(spec.pretrained);
  const json::Value document = read_hub_config(files), config = with_flat_members(document);
  const json::Value& type = json::member(config, "model_type");
  if (type != json::Value(def.model_type))
    refuse(files, fmt::format("model_type is {}, but model.type {} reads \"{}\"", json::compact(type),
                              name_of(spec.type), def.model_type));
  check_fixed(def, files, config);
  check_layers(def, files, config);
  Applied applied{.folder = folder_of(files.config), .values = {}, .faults = {}};
  for (const ConfigKey& key : def.keys) {
    const schema::Leaf* const leaf = recipe.find(key.field);
    const bool is_written = leaf != nullptr && leaf->origin != schema::OriginKind::kDefault;
    json::Value value = value_of(key, files, config, is_written && key.may_differ);
    if (value.is_null()) continue;
    value = as_field(*recipe.field_of(key.field), value, name_in(config, key), files);
    if (!is_written) {
      applied.values.emplace_back(key.field, std::move(value));
    } else if (!key.may_differ && !are_equal(leaf->value, value)) {
      applied.faults.push_back(
          recipe.fault(schema::ErrorId::kConflictingKeys, key.field,
                       fmt::format("{} is {}, but {} of {} is {}", key.field, schema::display_text(leaf->value),
                                   key.names.front(), files.config, schema::display_text(value))));
      applied.faults.back().hint = "remove it, because model.pretrained sets it";
    }
  }
  add_classes(recipe, files, class_names_of(document), applied);
  return applied;
}

// Returns why the folder has no tokenizer; none if it has one.
std::optional<std::string> why_no_tokenizer(const std::string& folder) {
  try {
    text::find_tokenizer(folder);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

// Lets the data have the tokens of the folder, unless the recipe names a tokenizer.
void add_tokenizer(const schema::ReadResult& recipe, Applied& applied) {
  constexpr const char* kTokenizer = "data.tokens.tokenizer";
  const std::string& folder = applied.folder;
  const std::optional<std::string> why_not = why_no_tokenizer(folder);
  if (recipe.recipe.data.tokens && recipe.find(kTokenizer) == nullptr) {
    if (why_not)
      applied.faults.push_back(recipe.fault(schema::ErrorId::kMissingKey, kTokenizer,
                                            fmt::format("{} is missing, and {}", kTokenizer, *why_not)));
    else
      applied.values.emplace_back(kTokenizer, folder);
  }
  for (const char* const key : {"data.train.tokens", "data.eval.tokens"}) {
    const schema::Leaf* const leaf = recipe.find(key);
    if (!why_not && leaf != nullptr && leaf->origin == schema::OriginKind::kDefault)
      applied.values.emplace_back(key, folder);
  }
}

constexpr const char* kSaved = "model.lora.modules_to_save";

// Returns the modules of the head that are newly initialized, in whole or in part.
std::vector<std::string> new_modules(schema::ModelSpec spec) {
  const PretrainedDef& def = find_model(spec.type)->pretrained();
  spec.lora.reset();
  data::Encoding any;  // which decides only shapes
  any.feature_shape = {1};
  any.outputs = any.vocabulary = 1;
  const Model model = build_model(spec, any);
  const std::string file = find_pretrained(spec.pretrained).weights;
  const formats::ModelTensors tensors(file);
  const PretrainedTensors loaded = match_tensors(def, file, tensors.tensors(), model.parameters, spec.new_head);
  const auto is_new = [&](const std::string& pattern, const Parameter& parameter) {
    return matches(pattern, parameter.name) && loaded.find(parameter.name) == nullptr;
  };
  std::vector<std::string> modules;
  for (const std::string& pattern : def.head)
    if (std::ranges::any_of(model.parameters.parameters(), [&](const Parameter& p) { return is_new(pattern, p); }))
      modules.push_back(module_of_pattern(pattern));
  return modules;
}

}  // namespace

void apply_config(schema::ReadResult& recipe) {
  if (recipe.recipe.model.pretrained.empty()) return;
  Applied applied = about_key(kKey, [&] { return values_by_config(recipe); });
  add_tokenizer(recipe, applied);
  if (!applied.faults.empty()) throw schema::RecipeError(std::move(applied.faults));
  set_defaults(recipe, applied.values);
  const schema::Leaf* const saved = recipe.find(kSaved);
  if (!recipe.recipe.model.lora || (saved != nullptr && saved->origin != schema::OriginKind::kDefault)) return;
  const std::vector<std::string> modules = about_key(kKey, [&] { return new_modules(recipe.recipe.model); });
  if (!modules.empty())
    set_defaults(recipe, std::array{std::pair<std::string, json::Value>{kSaved, json::list_of(modules)}});
}

}  // namespace runner::nn
