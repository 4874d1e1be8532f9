#include "backends/gpu/accounted_step.h"

#include "backends/graph/needed.h"

namespace runner::backends::gpu {
namespace {

// A seed, say.
constexpr int64_t kMostOfLaunch = 16;  // bytes

std::vector<BatchRead> copied(std::vector<BatchRead> reads) {
  std::erase_if(reads, [](const BatchRead& read) { return read.bytes <= kMostOfLaunch; });
  return reads;
}

}  // namespace

std::vector<BatchRead> batch_reads_of(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<BatchRead> reads;
  size_t batch = 0;
  for (const Input& input : program.inputs()) {
    if (input.kind != InputKind::kBatch) continue;
    const auto bytes = static_cast<int64_t>(program.type(input.value).bytes());
    if (needed[static_cast<size_t>(input.value)] != 0 && bytes > 0) reads.push_back({batch, bytes});
    ++batch;
  }
  return reads;
}

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
      batch_copies_(copied(batch_reads_of(plan.program))) {}

}  // namespace runner::backends::gpu
