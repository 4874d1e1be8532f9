#include "backends/gpu/memory_forecast.h"

#include "backends/gpu/device_memory.h"

namespace runner::backends::gpu {

MemoryForecast forecast_memory(const MemoryTrace& trace, const MemorySpec& spec) {
  DeviceMemory memory(spec);
  for (const TraceInput& state : trace.states)
    memory.allocate(state.bytes, kStreamPools.compute, memory.owners().intern(state.name));
  const PoolStatistics& counted = memory.allocator().statistics().all;
  const int64_t resident = counted.reserved_bytes.current;
  StepMemory step(trace, memory.owners());
  while (step.runs() < runs_until_steady(spec.captures))
    memory.run(step, {.pools = pools_of_run(step.runs(), spec.captures)});
  return {resident, counted.reserved_bytes.peak};
}

int64_t forecast_training(std::span<const ArrayBytes> arrays, const TrainingSteps& steps, const MemorySpec& spec) {
  DeviceMemory memory(spec);
  for (const ArrayBytes& array : arrays)
    if (array.bytes > 0) memory.allocate(array.bytes, kStreamPools.compute, memory.owners().intern(array.name));
  memory.set_training(&steps);
  TrainingReplay(steps, spec.captures, memory, memory.owners()).run();
  return memory.allocator().statistics().all.reserved_bytes.peak;
}

}  // namespace runner::backends::gpu
