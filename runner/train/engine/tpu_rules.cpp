#include "runner/train/engine/tpu_rules.h"

namespace runner::train {

using backends::tpu::DeviceTypes;
using backends::tpu::Dialect;

backends::tpu::Generation generation_of(const schema::Recipe& recipe) {
  return static_cast<backends::tpu::Generation>(recipe.tpu.generation);
}

Dialect dialect_of(const schema::Recipe& recipe) {
  constexpr Dialect kDialects[] = {Dialect::kXla2, Dialect::kXla17, Dialect::kClean};
  return kDialects[static_cast<size_t>(recipe.tpu.dialect)];
}

// PyTorch/XLA 1.7 has no f64 on a TPU.
DeviceTypes device_types_of(const schema::Recipe& recipe) {
  if (recipe.mixed_precision == schema::Precision::kBf16)
    return recipe.downcast_bf16 ? backends::tpu::kDowncastBf16Types : backends::tpu::kBf16Types;
  return dialect_of(recipe) == Dialect::kXla17 ? DeviceTypes{.f64 = backends::DType::kF32} : backends::tpu::kFullTypes;
}

backends::tpu::ScalarRules scalar_rules_of(const schema::Recipe& recipe) {
  return backends::tpu::scalar_rules(dialect_of(recipe), device_types_of(recipe));
}

}  // namespace runner::train
