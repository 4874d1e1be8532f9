// Writes config.json of a folder of the Hugging Face Hub. Thread-safe.
#pragma once

#include <string>

#include "runner/data/encoding.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::nn {

// Returns the config.json of the model of `recipe`: the inverse of apply_config(). Throws Error(kUsage) if transformers
// has no such model.
std::string hub_config_text(const schema::ReadResult& recipe, const data::Encoding& data);

}  // namespace runner::nn
