// Averages the weights of ranks that train separate copies (train.local_sgd), and checks that all ranks have
// bit-identical weights and moments (comm.check_every).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/dist/process_group.h"
#include "runner/train/engine/device_arrays.h"

namespace runner::train {

// Replaces weights, moments, running statistics, and gradients that a hook's training loop has kept by their mean over
// all ranks. Collective.
void average_weights(DeviceArrays& arrays, backends::ProcessGroup& ranks, const backends::Site& site);

struct TensorDigest {
  std::string name;  // "0.weight", "exp_avg of 0.weight"
  uint64_t digest;   // of its bits
};
// Returns the digests of parameters and optimizer slots in the order of the layout.
std::vector<TensorDigest> digests_of(const DeviceArrays& arrays, const nn::ParameterSet& parameters);

// Compares digests of the same tensors. Collective. Throws Error(kRun) with the first tensor that differs between ranks
// and the ranks that differ from the majority.
void check_identical(const std::vector<TensorDigest>& mine, backends::ProcessGroup& ranks, const backends::Site& site);

}  // namespace runner::train
