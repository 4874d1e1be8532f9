// What a valid recipe says that will have no effect, or another than meant, where refusing it would refuse what people
// are used to write.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe_reader.h"

namespace runner::schema {

// Texts with file and line.  one_cycle puts its own rate and momentum in the place of the optimizer's, as torch's
// OneCycleLR, whose optimizers have to be given a rate all the same.  A metric that is written without its mode, and is
// better the other way round than the mode of the section below or the default says.  On a TPU: fp16, and numbers of
// the optimizer that bf16 rounds to 1.  Thread-safe.
std::vector<std::string> recipe_warnings(const ReadResult& recipe);

}  // namespace runner::schema
