// Warnings about settings of a valid recipe that have no effect, or probably another effect than intended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Returns texts with file and line. Warns about: the optimizer's rate and momentum with one_cycle, which replaces them,
// as torch's OneCycleLR does; a metric without a mode, if the inherited or default mode is probably wrong for it; on a
// TPU, several ranks by default, fp16, and numbers of the optimizer that bf16 rounds to 1 or 0. Thread-safe.
std::vector<std::string> recipe_warnings(const ReadResult& recipe);

// A warning about a number of an optimizer: its key, and the text after the key (": 0.999 is 1 …", " has no effect:
// …").
struct NumberWarning {
  std::string_view key;
  std::string text;
};
// Returns warnings about numbers that a TPU rounds to 1 or 0, which changes the update.
std::vector<NumberWarning> optimizer_warnings_in_bf16(OptimizerType type, const OptimizerHyper& hyper,
                                                      SchedulerType scheduler);

}  // namespace runner::schema
