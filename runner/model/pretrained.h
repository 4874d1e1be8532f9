// Pretrained models in folders of the Hugging Face Hub (model.pretrained): what config.json and the tensors of a model
// type mean. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/encoding.h"
#include "schema/base/json.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::nn {

// Keys of config.json that give a field of the recipe its value. The last name is that of the newest version.
struct ConfigKey {
  std::vector<std::string> names;  // those that exist must have the same value
  std::string field;
  json::Value fallback = {};  // if config.json has none of them, or null; null: no value
  // Choices of the field, by the words of config.json; "": the field has no value.
  std::map<std::string, std::string> choices = {};
  bool may_differ = false;  // whether the recipe may have another value
};

// A key of config.json that must have this value, which is also that of an absent key.
struct FixedKey {
  std::string name;
  json::Value value;
};

using SizesByField = std::map<std::string, int64_t>;

// How folders of the Hub describe a model type.
struct PretrainedDef {
  std::string model_type;  // in config.json
  std::vector<ConfigKey> keys;
  std::vector<FixedKey> fixed;
  std::string prefix;              // of the parameters outside the head
  std::vector<std::string> roots;  // how names without the prefix begin
  // Patterns of names in the model. Tensors that are no parameters; weights that may be (in, out); parameters that may
  // be missing; those of the output layer, with a row for each class.
  std::vector<std::string> buffers, conv1d, head, outputs;
  std::string conv1d_sample;                // a weight of conv1d that is not square
  std::map<std::string, std::string> tied;  // tensors that are copies of a parameter

  // ---- folders that are written
  std::string (*architecture)(const schema::ModelSpec& spec);  // the class of transformers
  // Values of fields that a recipe may leave out, and that config.json needs.
  SizesByField (*sizes)(const schema::ModelSpec& spec, const data::Encoding& data);
  std::vector<std::string> biased;  // patterns of weights that always have a bias there
};

// Files of a pretrained model.
struct PretrainedFiles {
  std::string config;   // config.json
  std::string weights;  // a safetensors file, or the index of its shards
};

// `path`: folder or file of weights. Throws Error(kData) that says what is there instead.
PretrainedFiles find_pretrained(const std::string& path);

// Returns the object in config.json. Throws Error(kData) if it is none.
json::Value read_config(const PretrainedFiles& files);

// Returns the names of the classes in their order; empty if config.json has none, or only LABEL_0, LABEL_1, ….
std::vector<std::string> class_names_of(const json::Value& config);

// Returns the name that the model gives a tensor: without prefixes of wrappers, with that of the model, and with new
// spellings of norms.
std::string name_in_model(const PretrainedDef& def, std::string name);

// Returns the text of the config.json that describes the model of `recipe`. Throws Error(kUsage) if none does.
std::string config_text(const schema::ReadResult& recipe, const data::Encoding& data);

// Returns the name that the Hub's model of a type gives a parameter or module: that of an encoder without a head has no
// prefix.
std::string name_in_hub(const schema::ModelSpec& spec, const std::string& name);

// Gives the fields of `recipe` the values of config.json, if it has model.pretrained, and the tokens of its data the
// tokenizer of that folder, if the recipe names none. Throws RecipeError if the recipe
// has another value, Error(kRecipe) if the model computes something else than config.json says, and as
// find_pretrained().
void apply_config(schema::ReadResult& recipe);

}  // namespace runner::nn
