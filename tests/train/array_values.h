// Values of a trainer's arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/train/engine/trainer.h"
#include "tests/support/bytes.h"

namespace runner::train {

// Returns the values of a flat buffer of `role`.
template <class Number>
std::vector<Number> array_of(Trainer& trainer, ArrayRole role, int32_t buffer = 0, int32_t index = 0) {
  return support::numbers_of<Number>(trainer.arrays().read(trainer.layout().find(role, buffer, index)));
}

}  // namespace runner::train
