// Predicts how long a TPU takes for a step, as an interval.
//
//     on the device = Σ over fusions of max(matrix, vector, memory) + launches + all-reduces
//     least = max(on the device, upload of a batch),    most = least / η
//
// matrix: products on the matrix units, with the passes of their precision and the filled fraction of each tile.
// vector: everything else, at one operation per lane, ALU and cycle. memory: bytes at the HBM rate. η is the measured
// fraction of the roofline that training steps reach (tpu_data_sheet.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/tpu/numerics.h"
#include "backends/tpu/tensors.h"
#include "backends/tpu/tpu_data_sheet.h"

namespace runner::backends::tpu {

// Cost of a Program, counted like XLA's HloCostAnalysis.
//
// flops: one per element for arithmetic, comparisons and conversions. transcendentals are counted separately: exp, log,
// sqrt, tanh, erf, pow and random numbers. bytes: a fusion reads each operand once and writes each result once, padding
// included; slices, gathers and scatters count only the elements they access. Row operations (softmax, layer_norm, …)
// count as the HLO that PyTorch/XLA lowers them to.
struct Cost {
  int64_t flops = 0;
  int64_t transcendentals = 0;
  int64_t bytes = 0;

  Cost& operator+=(const Cost& other);
  bool operator==(const Cost&) const = default;
};

// Returns the cost of each fusion group; zero for groups that do no work on the device (DeviceTensors::idle).
std::vector<Cost> group_costs(const DeviceProgram& device, const DeviceTensors& tensors);

struct Machine {
  Generation generation = Generation::kV3;
  int devices = 1;  // one per rank
  MatmulPrecision precision = MatmulPrecision::kDefault;
};

struct StepTime {
  Cost cost;  // of all groups
  // Seconds, each summed over the groups.
  double matrix = 0, vector = 0, memory = 0;
  double bound = 0;  // longest of the three per group
  double launching = 0;
  double all_reduce = 0;
  double upload = 0;  // of a batch, overlapped with the step before it
  int launches = 0;

  double on_device() const { return bound + launching + all_reduce; }
  double least() const { return std::max(on_device(), upload); }
  double most(Generation generation) const { return least() / row_of(generation).efficiency; }
};

StepTime predict_step(const DeviceProgram& device, const DeviceTensors& tensors, const Machine& machine);

// Filled fraction of the matrix unit's tiles for an (m, k) × (k, n) product: rows are padded to 8, k and n to `tile`.
double tile_efficiency(int64_t m, int64_t k, int64_t n, int64_t tile);

// Seconds for an all-reduce of `bytes` bytes per device among `devices` devices of one board: devices of a chip
// through its HBM, then a ring of chips over both directions of a link, 1 us per hop.
double all_reduce_seconds(int64_t bytes, int devices, Generation generation);

// Example: "0.35 ms to 1.01 ms: t to t / 0.35, t = max(…", with all figures used.
std::string formula_text(const StepTime& time, const Machine& machine);

}  // namespace runner::backends::tpu
