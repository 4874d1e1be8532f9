// Time to plan a transformer's training step, by stage, in milliseconds of CPU time; and to trace the memory of its
// launches on an emulated GPU, both when the result is not cached and when it is.
//
//     plan_bench [LAYERS]      12 layers are 3,400 nodes
#include <cstdio>
#include <cstdlib>

#include <time.h>

#include "backends/exec/plan.h"
#include "backends/gpu/device_memory.h"
#include "backends/ir/passes/passes.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/run_program.h"

namespace {

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

class Laps {
 public:
  void print(const char* what, size_t count, const char* of) {
    const double now = cpu_ms();
    std::printf("%-28s %7.2f ms  %5zu %s\n", what, now - last_, count, of);
    last_ = cpu_ms();
  }

 private:
  double last_ = cpu_ms();
};

void print_memory(const runner::backends::Program& program) {
  using namespace runner::backends;
  const gpu::MemoryTrace trace = gpu::trace_memory(testing::launched_plan(program));
  gpu::DeviceMemory memory({"gpu 0", int64_t{16} << 30});
  gpu::StepAllocations known(trace, memory.owners());
  constexpr int kReplays = 100, kRepeats = 10000;
  memory.run(known, {});
  double start = cpu_ms();
  for (int i = 0; i < kReplays; ++i) {
    gpu::StepAllocations unknown(trace, memory.owners());
    memory.run(unknown, {});
  }
  const double replay = (cpu_ms() - start) / kReplays;
  std::printf("%-28s %7.3f ms  %5zu allocated or freed, %.0f ns each\n", "memory of launches", replay,
              trace.events.size(), replay * 1e6 / static_cast<double>(trace.events.size()));
  memory.run(known, {});
  memory.run(known, {});
  start = cpu_ms();
  for (int i = 0; i < kRepeats; ++i) memory.run(known, {});
  std::printf("%-28s %7.4f ms\n", "the same, known", (cpu_ms() - start) / kRepeats);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace runner::backends;
  const int64_t layers = argc > 1 ? std::atoi(argv[1]) : 12;
  for (int round = 0; round < 3; ++round) {
    Laps laps;
    const testing::GptStep step(
        {.batch = 4, .length = 64, .width = 64, .heads = 4, .layers = layers, .vocabulary = 100});
    const auto size_of = [](const Program& program) { return static_cast<size_t>(program.size()); };
    laps.print("record and differentiate", size_of(step.program()), "nodes");
    const Program program = legalise(optimise(step.program()));
    laps.print("fold, cse, dce, legalise", size_of(program), "nodes");
    const std::vector<Group> groups = make_groups(program);
    laps.print("fuse", groups.size(), "groups");
    const MemoryPlan memory =
        plan_memory(program, groups, std::vector<size_t>(groups.size(), 64), true, assign_offsets);
    laps.print("memory plan", memory.blocks.size(), "blocks");
    const Plan plan = build_plan(step.program());
    laps.print("all of it, with kernels", plan.steps.size(), "steps");
    print_memory(step.program());
    std::printf("\n");
  }
}
