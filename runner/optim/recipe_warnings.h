// Warnings about settings of a valid recipe that have no effect, or probably another effect than intended.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::optim {

// Returns the warnings of schema::recipe_warnings, and on a TPU those about numbers of the optimizer and its groups
// that bf16 rounds to 1 or 0. Thread-safe.
std::vector<std::string> recipe_warnings(const schema::ReadResult& recipe);

// A warning about a number of an optimizer: its key, and the text after the key (": 0.999 rounds to 1 …", " has no
// effect: …").
struct NumberWarning {
  std::string_view key;
  std::string text;
  bool operator==(const NumberWarning&) const = default;
};
// Returns warnings about numbers that a TPU rounds to 1 or 0, which changes the update.
std::vector<NumberWarning> number_warnings_in_bf16(schema::OptimizerType type, const schema::OptimizerHyper& hyper,
                                                   schema::SchedulerType scheduler);

}  // namespace runner::optim
