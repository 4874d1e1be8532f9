// Replicas that train weights of their own (train.local_sgd) become one model again.
#pragma once

#include "backends/collectives/collectives.h"
#include "runner/train/step/device_arrays.h"

namespace runner::train {

// Called by all together: the weights of each become the mean of all, and so do moments, and gradients that a loop of a
// hook's has kept.
void average_weights(DeviceArrays& arrays, backends::Collectives& ranks, const backends::Site& site);

}  // namespace runner::train
