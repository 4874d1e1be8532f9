// Batches that the running statistics of batch norms leave out, because their own statistics were not finite
// (docs/running-statistics.md).
#pragma once

#include <optional>
#include <string>

#include "runner/model/parameter_set.h"
#include "runner/train/engine/device_arrays.h"

namespace runner::train {

// Names the norms that have left out batches, and how many: "…: 5 updates of batch norm bn1, 1 update of batch norm
// layer1.0.bn1; …". None if no norm has. Waits for the device. The counts are those of this rank, since the beginning
// of the run.
std::optional<std::string> warning_of_left_out_batches(const DeviceArrays& arrays, const nn::ParameterSet& parameters);

}  // namespace runner::train
