// What one launch takes on an emulated GPU, predicted: a roofline of what a Plan's step computes and moves.
//
//     duration = max(flops / rate, bytes / memory rate, shortest kernel)
//
// Products run at the rate of their operands' type, everything else at that of f32, in which GPUs compute it; a
// transcendental counts as one operation, which is no matter: such kernels wait for memory.  Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/gpu/gpu_model.h"
#include "backends/plan/plan.h"

namespace runner::backends::gpu {

// Predicted time, as whole numbers: sums are exact in any order, so that the same step takes the same time whenever it
// runs.  An int64_t holds 106 days.
using Picoseconds = int64_t;
constexpr Picoseconds to_picoseconds(double seconds) {
  return static_cast<Picoseconds>(seconds * 1e12 + 0.5);
}
constexpr double to_seconds(Picoseconds time) {
  return static_cast<double>(time) * 1e-12;
}

// From the beginning of a kernel that does next to nothing to that of the one behind it.
inline constexpr Picoseconds kShortestKernel = to_picoseconds(2e-6);

// What time is accounted to.
enum class LaunchClass : uint8_t {
  kMatmul,
  kElementwise,
  kReduce,
  kRow,  // softmax, layer_norm and their kind
  kIndex,
  kRandom,
  kLayout,
  kOptimizer,  // element-wise work whose result is the new value of a state
  kCopy,       // over the link to the host
  kCollective,
};
inline constexpr int kLaunchClassCount = static_cast<int>(LaunchClass::kCollective) + 1;
std::string_view name_of(LaunchClass cls);

struct Launch {
  LaunchClass cls = LaunchClass::kElementwise;
  Picoseconds duration = 0;
  Picoseconds at_peak = 0;       // what its flops take at their peak rate
  std::string_view name = {};    // in traces; must outlive whoever shows it
  int64_t flops = 0, bytes = 0;  // that the duration is of
};

struct GpuMachine {
  GpuModel model = GpuModel::kA100With40g;
  int gpus = 1;  // of the box that take part
  bool allow_tf32 = false;
  bool captures = false;  // what has run twice becomes a captured graph
};

Launch launch_of(const Plan& plan, const PlanStep& step, const GpuMachine& machine);
// Of each step, then of each copy at the plan's end.  Names are those of ops: kernels are the cpu's.
std::vector<Launch> launches_of(const Plan& plan, const GpuMachine& machine);

// Between the host's pinned memory and the device's, in either direction.
Launch host_copy(int64_t bytes, const GpuMachine& machine);

// Of so many bytes on each GPU, as NCCL models a ring in one box, by the protocol that is soonest done.
Launch all_reduce(int64_t bytes, const GpuMachine& machine);

}  // namespace runner::backends::gpu
