#include "backends/gpu/accounted_step.h"

#include "backends/graph/needed.h"

namespace runner::backends::gpu {
namespace {

std::vector<Launch> copies_of_batch(const Program& program, const GpuMachine& machine) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<Launch> copies;
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kBatch && needed[static_cast<size_t>(input.value)] != 0)
      copies.push_back(host_copy(static_cast<int64_t>(program.type(input.value).bytes()), machine));
  return copies;
}

}  // namespace

std::span<const StepStreams> runs_until_steady(const GpuMachine& machine) {
  static constexpr StepStreams kRuns[] = {kStepStreams, kStepStreams, kCaptureStreams};
  return std::span(kRuns).first(machine.captures ? 3 : 2);
}

AccountedStep::AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine)
    : plan_(plan),
      trace_(trace_memory(plan)),
      forecast_(forecast_memory(trace_, memory.device(), memory.allocator().limit(), runs_until_steady(machine))),
      memory_(trace_, memory),
      launches_(launches_of(plan, machine)),
      batch_copies_(copies_of_batch(plan.program, machine)) {}

}  // namespace runner::backends::gpu
