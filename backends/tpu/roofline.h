// How long a TPU takes for a step, predicted: an interval, not a point.
//
//     on the device = Σ over fusions of max(matrix, vector, memory) + launches + all-reduces
//     least = max(on the device, upload of a batch),    most = least / η
//
// matrix: products on the matrix units, with the passes of their precision and the part of each tile that is filled.
// vector: everything else, at one operation a lane, ALU and tick.  memory: bytes at the rate of HBM.  η is what
// training steps were measured to reach of their roofline (generation.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/tpu/cost.h"
#include "backends/tpu/generation.h"
#include "backends/tpu/matmul_precision.h"

namespace runner::backends::tpu {

struct Machine {
  Generation generation = Generation::kV3;
  int replicas = 1;  // a device each
  MatmulPrecision precision = MatmulPrecision::kDefault;
};

struct StepTime {
  Cost cost;  // of all groups
  // Seconds, each summed over the groups.
  double matrix = 0, vector = 0, memory = 0;
  double bound = 0;  // of each group the longest of the three
  double launching = 0;
  double all_reduce = 0;
  double upload = 0;  // of a batch, while the step before it runs
  int launches = 0;

  double on_device() const { return bound + launching + all_reduce; }
  double least() const { return std::max(on_device(), upload); }
  double most(Generation generation) const { return least() / row_of(generation).efficiency; }
};

StepTime predict_step(const DeviceProgram& device, const DeviceTensors& tensors, const Machine& machine);

// The part of the matrix units' tiles that an (m, k) × (k, n) product fills: rows in eights, the inner and the other
// outer size in tiles of the unit.
double tile_efficiency(int64_t m, int64_t k, int64_t n, int64_t tile);

// Of so many bytes on each of `replicas` devices of one board: the devices of a chip in its HBM, then a ring of chips
// over both directions of a link, 1 us a hop.
double all_reduce_seconds(int64_t bytes, int replicas, Generation generation);

// "0.35 ms to 1.01 ms: t to t / 0.35, t = max(…": with all figures that went into it.
std::string formula_text(const StepTime& time, const Machine& machine);

}  // namespace runner::backends::tpu
