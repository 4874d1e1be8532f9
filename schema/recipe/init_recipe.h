// The recipe that `runner init` writes, also from the configuration of Accelerate. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner::schema {

// Settings from another program's configuration.
struct RecipeSettings {
  std::string backend = "cpu";
  int64_t num_processes = 1;
  std::string mixed_precision = "no";
  bool downcast_bf16 = false;
  bool enable_cpu_affinity = false;
  std::optional<int64_t> gradient_accumulation_steps;
  std::optional<double> clip_grad_norm;
};

// Returns a small commented recipe that runs as it is, on synthetic data, and shows where to put other data. `name`:
// name of the run. Throws Error(kUsage) if the name is empty or contains a control character.
std::string init_recipe(std::string_view name);
// As above, with settings, and with `comments` as lines at the top.
std::string init_recipe(std::string_view name, const RecipeSettings& settings,
                        const std::vector<std::string>& comments);

struct ImportedMachine {
  std::string host;  // empty: the file does not name it
  int64_t processes = 1;
};

struct ImportedConfig {
  RecipeSettings settings;
  std::vector<ImportedMachine> machines;  // the first one has rank 0; empty: a single machine
  // Settings that were not imported, in the order of the file: "KEY: VALUE: reason".
  std::vector<std::string> left_out;
};

// Reads Accelerate's configuration file, YAML or JSON, which `accelerate config` writes: the number of processes, the
// machines, the device, the precision, and the settings of engines such as DeepSpeed. Also reads the host file that it
// names. Settings that a recipe has are imported; the
// others are listed with the reason. Keys, types and defaults: ClusterConfig and SageMakerConfig of Accelerate 1.15
// (commands/config/config_args.py, cluster.py); the older `fp16` and `dynamo_backend` as in its process_config. Throws
// RecipeError with all faults: invalid YAML, an unknown key or choice, a value of another type, no distributed_type.
ImportedConfig import_accelerate_config(const std::string& path);

// Returns all known keys; those of sections as "fsdp_config.fsdp_version".
std::vector<std::string> accelerate_config_keys();

}  // namespace runner::schema
