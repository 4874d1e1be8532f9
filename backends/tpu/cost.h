// Cost of a Program, counted like XLA's HloCostAnalysis.
//
// flops: one per element for arithmetic, comparisons and conversions. transcendentals are counted separately: exp, log,
// sqrt, tanh, erf, pow and random numbers. bytes: a fusion reads each operand once and writes each result once, padding
// included; slices, gathers and scatters count only the elements they access. Row operations (softmax, layer_norm, …)
// count as the HLO that PyTorch/XLA lowers them to.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/tpu/tensors.h"

namespace runner::backends::tpu {

struct Cost {
  int64_t flops = 0;
  int64_t transcendentals = 0;
  int64_t bytes = 0;

  Cost& operator+=(const Cost& other);
  bool operator==(const Cost&) const = default;
};

// Returns the cost of each fusion group; zero for groups that do no work on the device (DeviceTensors::idle).
std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors);

}  // namespace runner::backends::tpu
