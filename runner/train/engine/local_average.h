// Averages the weights of ranks that train separate copies (train.local_sgd).
#pragma once

#include "backends/dist/process_group.h"
#include "runner/train/engine/device_arrays.h"

namespace runner::train {

// Replaces weights, moments, and gradients that a hook's training loop has kept by their mean over all ranks.
// Collective.
void average_weights(DeviceArrays& arrays, backends::ProcessGroup& ranks, const backends::Site& site);

}  // namespace runner::train
