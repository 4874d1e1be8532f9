#include "backends/gpu/accounted_step.h"

namespace runner::backends::gpu {

AccountedStep::AccountedStep(const Plan& plan, DeviceMemory& memory, const GpuMachine& machine)
    : plan_(plan),
      trace_(trace_memory(plan)),
      forecast_(forecast_memory(trace_, memory.device(), memory.allocator().limit(), machine.captures)),
      memory_(trace_, memory.owners()),
      launches_(launches_of(plan, machine)) {}

}  // namespace runner::backends::gpu
