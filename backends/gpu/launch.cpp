#include "backends/gpu/launch.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backends/device_model/ring_all_reduce.h"
#include "backends/ir/op_def.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

// NCCL ring protocols: base latency, latency per hop, and the fraction of the link rate that the protocol reaches; 0:
// not available on that link. Source: NCCL tuning.cc, baseLatencies, hwLatencies and ncclTopoTuneModel(), which
// restricts LL128 to NVLink.
struct Protocol {
  double begin_seconds;
  double nvlink_hop_seconds, pcie_hop_seconds;
  double nvlink_share, pcie_share;
};
constexpr std::array<Protocol, 3> kProtocols{{
    {6.6e-6, 0.6e-6, 1.0e-6, 0.25, 0.25},  // LL
    {14.0e-6, 1.9e-6, 2.5e-6, 0.92, 0},    // LL128
    {8.4e-6, 3.4e-6, 5.7e-6, 1, 1},        // Simple
}};

double all_reduce_seconds(int64_t bytes, int gpus, const GpuDataSheet& row) {
  double least = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : kProtocols) {
    const bool nvlink = row.link == GpuLink::kNvlink;
    const double share = nvlink ? protocol.nvlink_share : protocol.pcie_share;
    if (share == 0) continue;
    const double hop = nvlink ? protocol.nvlink_hop_seconds : protocol.pcie_hop_seconds;
    least = std::min(least, protocol.begin_seconds +
                                ring_all_reduce_seconds(static_cast<double>(bytes), gpus, row.link_rate * share, hop));
  }
  return least;
}

LaunchClass class_of(OpKind kind) {
  switch (kind) {
    case OpKind::kContraction:
    case OpKind::kAttention: return LaunchClass::kMatmul;
    case OpKind::kWindow:
    case OpKind::kReduction: return LaunchClass::kReduce;
    case OpKind::kRow: return LaunchClass::kRow;
    case OpKind::kIndexing: return LaunchClass::kIndex;
    case OpKind::kRandom: return LaunchClass::kRandom;
    case OpKind::kCollective: return LaunchClass::kCollective;
    case OpKind::kElementwise: return LaunchClass::kElementwise;
    case OpKind::kLeaf:  // a constant that a kernel reads as a tensor
    case OpKind::kMovement: return LaunchClass::kLayout;
  }
  RUN_ASSERT(false);
}

// Whether the step writes a whole state, in place or through a copy at the end of the plan. Accumulating a gradient
// into a flat buffer writes only a part and does not count.
bool updates_state(const Plan& plan, const PlanStep& step) {
  const Program& program = plan.program;
  for (size_t r = 0; r < step.results.size(); ++r) {
    const int32_t slot = step.results[r].slot;
    if (slot > 0 &&
        program.type(step.result_values[r]) == program.type(program.inputs()[static_cast<size_t>(slot) - 1].value))
      return true;
  }
  return std::ranges::any_of(program.outputs(),
                             [&](const Output& output) { return output.state >= 0 && output.value == step.node; });
}

// Products run at the rate of their operands' dtype, everything else at the f32 rate, or the f64 rate for f64 results.
double flop_rate(const Program& program, ValueId id, const GpuMachine& machine) {
  const GpuDataSheet& row = row_of(machine.model);
  if (def_of(program.node(id).op).matrix_operands > 0)
    return product_flops(row, program.type(program.operands(id)[0]).dtype, machine.allow_tf32);
  return program.type(id).dtype == DType::kF64 ? row.product_flops.f64 : row.product_flops.f32;
}

Picoseconds longest(double seconds, double other) {
  return std::max(to_picoseconds(std::max(seconds, other)), kShortestKernel);
}

}  // namespace

std::string_view name_of(LaunchClass cls) {
  constexpr std::string_view kNames[kLaunchClassCount] = {"matmul", "elementwise", "reduce",    "row",  "index",
                                                          "random", "layout",      "optimizer", "copy", "collective"};
  return kNames[static_cast<int>(cls)];
}

Launch launch_of(const Plan& plan, const PlanStep& step, const GpuMachine& machine) {
  const GpuDataSheet& row = row_of(machine.model);
  const Program& program = plan.program;
  const auto bytes_of = [&](ValueId id) { return static_cast<int64_t>(program.type(id).bytes()); };
  const Op op = program.node(step.node).op;
  Launch launch{.cls = class_of(kind_of(op)), .name = name_of(op)};
  if (launch.cls == LaunchClass::kCollective) {
    launch.bytes = bytes_of(step.node);
    launch.duration = all_reduce(launch.bytes, machine).duration;
    return launch;
  }
  const bool is_loop = launch.cls == LaunchClass::kElementwise;
  if (is_loop && updates_state(plan, step)) {
    launch.cls = LaunchClass::kOptimizer;
    launch.name = name_of(launch.cls);
  }
  const double rate = flop_rate(program, step.node, machine);
  const double computing = static_cast<double>(step.flops) / rate;
  // A fused loop accesses the bytes recorded in its step; a single node accesses what its op touches.
  launch.bytes = is_loop ? step.bytes : touched_bytes(program, step.node, bytes_of);
  launch.flops = step.flops;
  launch.duration = longest(computing, static_cast<double>(launch.bytes) / row.memory_rate);
  launch.at_peak = to_picoseconds(computing);
  return launch;
}

std::vector<Launch> launches_of(const Plan& plan, const GpuMachine& machine) {
  std::vector<Launch> launches;
  launches.reserve(plan.steps.size() + plan.copies.size());
  for (const PlanStep& step : plan.steps) launches.push_back(launch_of(plan, step, machine));
  for (const StateCopy& copy : plan.copies) {
    const int64_t bytes = 2 * static_cast<int64_t>(copy.bytes);
    const double seconds = static_cast<double>(bytes) / row_of(machine.model).memory_rate;
    launches.push_back(
        {.cls = LaunchClass::kOptimizer, .duration = longest(seconds, 0), .name = "copy of a state", .bytes = bytes});
  }
  return launches;
}

Launch host_copy(int64_t bytes, const GpuMachine& machine) {
  const double seconds = static_cast<double>(bytes) / row_of(machine.model).host_rate;
  return {.cls = LaunchClass::kCopy, .duration = longest(seconds, 0), .name = "copy", .bytes = bytes};
}

Launch all_reduce(int64_t bytes, const GpuMachine& machine) {
  const double seconds = machine.gpus > 1 ? all_reduce_seconds(bytes, machine.gpus, row_of(machine.model)) : 0;
  return {.cls = LaunchClass::kCollective, .duration = longest(seconds, 0), .name = "all_reduce", .bytes = bytes};
}

}  // namespace runner::backends::gpu
