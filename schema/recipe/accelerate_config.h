// Imports Accelerate's configuration file.
//
// `accelerate config` writes default_config.yaml: the number of processes, the device, the precision, and the settings
// of engines such as DeepSpeed. Keys that a recipe has are imported; the others are listed with the reason. Keys, types
// and defaults: ClusterConfig and SageMakerConfig of Accelerate 1.15 (commands/config/config_args.py, cluster.py); the
// older `fp16` and `dynamo_backend` as in its process_config. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/init_recipe.h"

namespace runner::schema {

struct ImportedConfig {
  RecipeSettings settings;
  // Settings that were not imported, in the order of the file: "KEY: VALUE: reason".
  std::vector<std::string> left_out;
};

// Reads a YAML or JSON file. Throws RecipeError with all faults: invalid YAML, an unknown key or choice, a value of
// another type, no distributed_type.
ImportedConfig import_accelerate_config(const std::string& path);

// Returns all known keys; those of sections as "fsdp_config.fsdp_version".
std::vector<std::string> accelerate_config_keys();

}  // namespace runner::schema
