// The checkpoints that transformers has of a model type: keys of config.json, names of tensors, heads. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/encoding.h"
#include "schema/base/json.h"
#include "schema/recipe/recipe.h"

namespace runner::nn {

// Keys of config.json that set a field of the recipe. The last name is that of the newest version.
struct ConfigKey {
  std::vector<std::string> names;  // those that config.json has must have the same value
  std::string field;
  json::Value fallback = {};  // if config.json has none of the names, or null; null: no value
  // Choices of the field, by the words of config.json; "": the field has no value.
  std::map<std::string, std::string> choices = {};
  bool may_differ = false;  // whether the recipe may have another value
};

// A key of config.json that must have this value, which is also that of an absent key.
struct FixedKey {
  std::string name;
  json::Value value;
};

// Patterns of keys of config.json that may change what a model computes. A key that PretrainedDef does not have is
// refused if it matches.
inline constexpr std::string_view kKeysOfResults[] = {
    "rope_*",         "*scal*",         "*sliding_window*",     "alibi",
    "attention_bias", "attention_type", "quantization_config*", "multi_query"};

using SizesByField = std::map<std::string, int64_t>;

// A class of transformers: a model with the head of a task.
struct HubHead {
  std::string architecture;       // name of the class
  std::string peft_task = {};     // task_type of an adapter; empty: none
  bool has_prefix = true;         // whether names of parameters begin with PretrainedDef::prefix
  bool has_labels = false;        // whether config.json names the outputs, in id2label
  std::string problem_type = {};  // in config.json; empty: none
};

// What folders of the Hub contain for a model type.
struct PretrainedDef {
  std::string model_type;  // in config.json
  std::vector<ConfigKey> keys;
  std::vector<FixedKey> fixed;
  std::string prefix;              // of the parameters outside the head
  std::vector<std::string> roots;  // first parts of names that lack the prefix
  // Patterns of names in the model: tensors that are no parameters; weights that may be stored as (in, out); parameters
  // that may be missing; parameters of the output layer, with a row for each class.
  std::vector<std::string> ignored, conv1d, head, outputs;
  std::string conv1d_sample;                // a weight of conv1d that is not square
  std::map<std::string, std::string> tied;  // tensors that are copies of a parameter

  // ---- folders that are written
  HubHead (*head_of)(const schema::ModelSpec& spec);
  // Values of fields that a recipe may leave out, and that config.json needs.
  SizesByField (*sizes)(const schema::ModelSpec& spec, const data::Encoding& data);
  std::vector<std::string> biased;  // patterns of weights that always have a bias in transformers
};

// Returns the module that a pattern of `head` or `outputs` selects: without ".*".
std::string module_of_pattern(std::string_view pattern);

// Returns the model's name of a tensor: without prefixes of wrappers, with the prefix of the model, and with the new
// names of the weights of norms.
std::string name_in_model(const PretrainedDef& def, std::string name);

// Returns the name that transformers gives a parameter or module of the model.
std::string name_in_hub(const schema::ModelSpec& spec, const std::string& name);

}  // namespace runner::nn
