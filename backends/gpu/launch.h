// Predicted duration of one kernel launch on an emulated GPU: a roofline over the work of a Plan step.
//
//     duration = max(flops / flop rate, bytes / memory rate, shortest kernel)
//
// Products run at the rate of their operands' dtype, everything else at the f32 rate, since GPUs compute it in f32. A
// transcendental counts as one flop; such kernels are memory bound anyway. All functions are pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/exec/plan.h"
#include "backends/gpu/gpu_data_sheet.h"

namespace runner::backends::gpu {

// Predicted time. Integers make sums independent of their order, so the same step always takes the same time. An
// int64_t holds 106 days.
using Picoseconds = int64_t;
constexpr Picoseconds to_picoseconds(double seconds) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): llround() is not constexpr
  return static_cast<Picoseconds>(seconds * 1e12 + 0.5);
}
constexpr double to_seconds(Picoseconds time) {
  return static_cast<double>(time) * 1e-12;
}

// Start-to-start time of consecutive kernels that do almost nothing.
inline constexpr Picoseconds kShortestKernel = to_picoseconds(2e-6);

// Category of a launch in the time breakdown.
enum class LaunchClass : uint8_t {
  kMatmul,
  kElementwise,
  kReduce,
  kRow,  // softmax, layer_norm and the like
  kIndex,
  kRandom,
  kLayout,
  kOptimizer,  // element-wise work that writes the new value of a state
  kCopy,       // over the link to the host
  kCollective,
};
inline constexpr int kLaunchClassCount = static_cast<int>(LaunchClass::kCollective) + 1;
std::string_view name_of(LaunchClass cls);

struct Launch {
  LaunchClass cls = LaunchClass::kElementwise;
  Picoseconds duration = 0;
  Picoseconds at_peak = 0;       // time of the flops at their peak rate
  std::string_view name = {};    // shown in traces; must outlive the launch and its users
  int64_t flops = 0, bytes = 0;  // the duration is predicted from these
};

struct GpuMachine {
  GpuProduct model = GpuProduct::kA100With40g;
  int gpus = 1;  // GPUs of the machine that take part
  bool allow_tf32 = false;
};

Launch launch_of(const Plan& plan, const PlanStep& step, const GpuMachine& machine);
// Returns one launch per step, followed by one per state copy at the end of the plan. Launches are named after ops,
// since the kernels are those of the CPU.
std::vector<Launch> launches_of(const Plan& plan, const GpuMachine& machine);

// Copy between pinned host memory and the device, in either direction.
Launch host_copy(int64_t bytes, const GpuMachine& machine);

// All-reduce of `bytes` bytes per GPU over a ring within one machine, by NCCL's cost model, with the fastest protocol.
Launch all_reduce(int64_t bytes, const GpuMachine& machine);

}  // namespace runner::backends::gpu
