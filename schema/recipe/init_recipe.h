// The recipe that `runner init` writes. Thread-safe.
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

}  // namespace runner::schema
