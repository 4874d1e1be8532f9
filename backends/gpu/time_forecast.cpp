#include "backends/gpu/time_forecast.h"

#include <optional>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/gpu/gpu_step.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {
namespace {

constexpr int64_t kFlagBytes = 1;
// The first step finds idle streams and no staged batch. The steps after it are alike.
constexpr int kSteps = 3;

// Steps with work for the GPU, in order.
struct TimedSubmission {
  ModelledStep* step;
  std::span<const ReducedBytes> reduced;
};

std::vector<TimedSubmission> timed(std::span<const PlannedSubmission> submissions) {
  std::vector<TimedSubmission> steps;
  for (const PlannedSubmission& submission : submissions) {
    ModelStep* const step = ModelledDevice::model_step(*submission.executable);
    if (step == nullptr) continue;
    ModelledStep& modelled = static_cast<GpuStep&>(*step).modelled();
    if (!modelled.launches().empty()) steps.push_back({&modelled, submission.reduced});
  }
  return steps;
}

// The next submission, of this optimizer step or of the one after it, that reads a batch. There is one.
const ModelledStep& next_reader(const std::vector<TimedSubmission>& steps, size_t index) {
  do index = (index + 1) % steps.size();
  while (steps[index].step->batch().empty());
  return *steps[index].step;
}

}  // namespace

PredictedTime forecast_time(std::span<const PlannedSubmission> submissions, const ForecastOptions& options) {
  const std::vector<TimedSubmission> steps = timed(submissions);
  GpuClock clock(options.clock);
  std::optional<GpuClock::StagedInputs> staged;
  PredictedTime last;
  for (int repetition = 0; repetition < kSteps; ++repetition) {
    for (size_t i = 0; i < steps.size(); ++i) {
      ModelledStep& step = *steps[i].step;
      clock.compute(step,
                    {.reduced = steps[i].reduced, .replays = options.replays, .staged = staged ? &*staged : nullptr});
      if (step.batch().empty() || !options.prefetches) continue;
      const ModelledStep& next = next_reader(steps, i);
      staged = clock.stage(next, batch_bytes(next.memory().trace()));
    }
    clock.download(kFlagBytes);
    last = clock.take();
  }
  return last;
}

}  // namespace runner::backends::gpu
