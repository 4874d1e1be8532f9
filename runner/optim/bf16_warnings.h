// Warnings about numbers of optimizers that bf16 rounds to 1 or 0, for devices that keep f32 as bf16.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::optim {

// Returns texts with file and line about the recipe's optimizer and its groups. Thread-safe.
std::vector<std::string> bf16_warnings(const schema::ReadResult& recipe);

// A warning about a number of an optimizer: its key, and the text after the key (": 0.999 rounds to 1 …", " has no
// effect: …").
struct NumberWarning {
  std::string_view key;
  std::string text;
  bool operator==(const NumberWarning&) const = default;
};
// Returns warnings about numbers that such a device rounds to 1 or 0, which changes the update.
std::vector<NumberWarning> number_warnings_in_bf16(schema::OptimizerType type, const schema::OptimizerHyper& hyper,
                                                   schema::SchedulerType scheduler);

}  // namespace runner::optim
