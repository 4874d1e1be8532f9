// Settings of the emulated TPU in a recipe: the types of its numbers, and which scalars cause recompilation.
#pragma once

#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tpu_data_sheet.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

backends::tpu::Generation generation_of(const schema::Recipe& recipe);
backends::tpu::Dialect dialect_of(const schema::Recipe& recipe);
backends::tpu::DeviceTypes device_types_of(const schema::Recipe& recipe);
backends::tpu::ScalarRules scalar_rules_of(const schema::Recipe& recipe);

}  // namespace runner::train
