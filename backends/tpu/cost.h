// What a Program costs, counted as XLA's HloCostAnalysis counts it.
//
// flops: one for each element of arithmetic, comparisons and conversions; transcendentals apart: exp, log, sqrt, tanh,
// erf, pow and random numbers.  Bytes: a fusion reads each operand and writes each result once, with padding; slices,
// gathers and scatters touch what they take only.  Our row operations (softmax, layer_norm, …) count as the HLO that
// PyTorch/XLA makes of them.
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

// Of one node; bytes as if it stood alone.
Cost node_cost(const DeviceProgram& device, const DeviceTensors& tensors, ValueId id);

// Of each group; nothing where it does nothing on the device.
std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors);

}  // namespace runner::backends::tpu
