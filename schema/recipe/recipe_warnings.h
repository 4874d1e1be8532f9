// What a valid recipe says that will have no effect, or another than meant, where refusing it would refuse what people
// are used to write.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Texts with file and line.  one_cycle puts its own rate and momentum in the place of the optimizer's, as torch's
// OneCycleLR, whose optimizers have to be given a rate all the same.  A metric that is written without its mode, and is
// better the other way round than the mode of the section below or the default says.  On a TPU: fp16, and numbers of
// the optimizer that bf16 rounds to 1 or 0.  Thread-safe.
std::vector<std::string> recipe_warnings(const ReadResult& recipe);

// Of an optimizer's numbers: by key, what stands behind it in a sentence (": 0.999 is 1 …", " has no effect: …").
struct NumberWarning {
  std::string_view key;
  std::string text;
};
// Those that a TPU rounds to 1 or 0, by which the update becomes another.
std::vector<NumberWarning> optimizer_warnings_in_bf16(OptimizerType type, const OptimizerHyper& hyper,
                                                      SchedulerType scheduler);

}  // namespace runner::schema
