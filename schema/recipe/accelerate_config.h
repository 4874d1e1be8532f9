// Accelerate's own configuration file as a recipe.
//
// `accelerate config` writes default_config.yaml: how many processes on what, in which precision, and the settings of
// the engines that it can hand a model to.  What of it is a setting of a recipe becomes one; the rest is named with the
// reason why it has no place.  Keys, types and defaults: ClusterConfig and SageMakerConfig of Accelerate 1.15
// (commands/config/config_args.py, cluster.py); the older `fp16` and `dynamo_backend` as its process_config reads them.
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/init_recipe.h"

namespace runner::schema {

struct ImportedConfig {
  RecipeSettings settings;
  // What the recipe has no place for, or not this value yet: "KEY: VALUE: reason", in the order of the file.
  std::vector<std::string> left_out;
};

// Reads a file, YAML or JSON.  Throws RecipeError with all that is wrong: no YAML, an unknown key or choice, a value of
// another type, no distributed_type.
ImportedConfig import_accelerate_config(const std::string& path);

// Every key that is known, those of sections as "fsdp_config.fsdp_version".
std::vector<std::string> accelerate_config_keys();

}  // namespace runner::schema
