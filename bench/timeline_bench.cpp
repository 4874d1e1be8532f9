// Cost of predictions: CPU nanoseconds per call of an emulated GPU's clock, and per launch of a transformer's training
// step that is derived from its plan.
//
//     timeline_bench
#include <cstdio>

#include <time.h>

#include "backends/gpu/timeline.h"
#include "tests/backends/support/gpt_step.h"

namespace {

double cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

}  // namespace

int main() {
  using namespace runner::backends;
  const testing::GptStep step({.batch = 4, .length = 64, .width = 64, .heads = 4, .layers = 4, .vocabulary = 100});
  const Plan plan = build_plan(step.program(), {.fusion = Fusion::kFlat});
  for (int round = 0; round < 3; ++round) {
    double start = cpu_ns();
    const std::vector<gpu::Launch> launches = gpu::launches_of(plan, {});
    const auto count = static_cast<double>(launches.size());
    std::printf("work out a launch %6.1f ns  %zu launches\n", (cpu_ns() - start) / count, launches.size());
    gpu::Timeline timeline;
    constexpr int kSteps = 1000;
    start = cpu_ns();
    for (int i = 0; i < kSteps; ++i)
      for (const gpu::Launch& launch : launches) timeline.launch(gpu::StreamKind::kCompute, launch);
    const double launching = (cpu_ns() - start) / (count * kSteps);
    std::printf("launch on clock   %6.1f ns  step of %.3f ms\n", launching,
                gpu::to_seconds(timeline.take().elapsed) / kSteps * 1e3);
  }
}
