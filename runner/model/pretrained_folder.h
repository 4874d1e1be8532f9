// Folders of pretrained models, as on the Hugging Face Hub (model.pretrained). Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "schema/base/json.h"

namespace runner::nn {

struct PretrainedFiles {
  std::string config;   // config.json
  std::string weights;  // a safetensors file, or the index of its shards
};

// `path`: a folder, or its file of weights. Throws Error(kData) that says what the folder has instead.
PretrainedFiles find_pretrained(const std::string& path);

// Returns the object in config.json. Throws Error(kData) if the file has none.
json::Value read_hub_config(const PretrainedFiles& files);

// Returns the names of the classes in the order of the outputs; empty if config.json has none, or only LABEL_0,
// LABEL_1, ….
std::vector<std::string> class_names_of(const json::Value& config);

}  // namespace runner::nn
