// Replicas compare their weights and moments, which must be the same bits (comm.check_every).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/collectives/collectives.h"
#include "runner/train/step/device_arrays.h"

namespace runner::train {

struct TensorDigest {
  std::string name;  // "0.weight", "exp_avg of 0.weight"
  uint64_t digest;   // of its bits
};
// Of parameters and optimizer slots, in the order of the layout.
std::vector<TensorDigest> digests_of(const DeviceArrays& arrays, const nn::ParameterSet& parameters);

// Called by all together, with digests of the same tensors.  Throws Error(kRun) with the first tensor that is not the
// same in all, and the ranks that most others differ from.
void check_alike(const std::vector<TensorDigest>& mine, backends::Collectives& ranks, const backends::Site& site);

}  // namespace runner::train
