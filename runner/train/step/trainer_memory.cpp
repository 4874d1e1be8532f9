// The memory of a Trainer: what its steps need beside its arrays, and whether the device has so much.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/runtime/out_of_memory.h"
#include "backends/tensor/rounding.h"
#include "runner/train/step/step_completion.h"
#include "runner/train/step/trainer.h"

namespace runner::train {

void Trainer::prepare(const StepShape& shape) {
  const StepShape kind = shape_of(shape.batch, shape.first, shape.last && steps_alone());
  if (!may_ask_for_values() && shape.batch > 0)
    executor_.check_memory("forward, backward",
                           *training_step(kind, nullptr, shape.last && !steps_alone())->executable);
  if (!arrays_.shares()) return;
  const SharedStep update = meeting_step(end_of_window(message(shape.batch)));
  executor_.check_memory("update", *update->executable, backends::SpanKind::kOptimizer);
}

// Where a hook may ask for values while it records, its steps cannot be had before: then what it surely has is looked
// at, the arrays.
void Trainer::check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch) {
  if (!device_.keeps_graphs()) return;
  if (may_ask_for_values()) {
    backends::Program arrays;
    builder_.begin(arrays, std::nullopt, /*with_scalars=*/false);
    device_.compile_graph(arrays, arrays);
    return;
  }
  std::optional<backends::OutOfMemory> worst;
  const auto look_at = [&](const auto& make) {
    try {
      make();
    } catch (const backends::OutOfMemory& error) {
      if (!worst || error.bytes() > worst->bytes()) worst = error;
    }
  };
  for (const WindowStep& kind : steps_of_windows(plan))
    look_at([&] { training_step(kind.shape, nullptr, kind.closes_window); });
  if (evaluation_batch > 0 && !builder_.varies(false))
    look_at([&] { forward_.step_of_evaluation(parts.at_once(evaluation_batch)); });
  if (worst) throw backends::OutOfMemory(*worst);
}

// A hook, for values of tensors.
bool Trainer::may_ask_for_values() const {
  return has(hooks_, HookEntry::kTrainingStep) || has(hooks_, HookEntry::kTrain);
}

MemoryUse Trainer::memory() const {
  MemoryUse use = arrays_.memory();
  use.activations = static_cast<int64_t>(device_.temporary_bytes());
  return use;
}

// Whether a step is the first, or the last, is what makes it another.
std::vector<Trainer::WindowStep> Trainer::steps_of_windows(const data::DataPlan& plan) const {
  const int64_t batch = parts.at_once(plan.max_batch()), of_batch = backends::ceil_div(plan.max_batch(), batch);
  std::vector<WindowStep> kinds;
  for (const int64_t window : {int64_t{0}, std::max<int64_t>(plan.optimizer_steps(1), 1) - 1}) {
    const int64_t steps = plan.window(window).steps * of_batch;
    for (const int64_t step : {int64_t{0}, steps / 2, steps - 1}) {
      const bool last = step == steps - 1;
      const WindowStep kind{shape_of(batch, step == 0, last && steps_alone()), last && !steps_alone()};
      if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  return kinds;
}

std::vector<SharedStep> Trainer::all_steps_of_windows(const data::DataPlan& plan) {
  std::vector<SharedStep> steps;
  for (const WindowStep& kind : steps_of_windows(plan))
    steps.push_back(training_step(kind.shape, nullptr, kind.closes_window));
  if (arrays_.shares()) steps.push_back(meeting_step(end_of_window(message(plan.max_batch()))));
  return steps;
}

PeakMemory Trainer::peak_memory(const data::DataPlan& plan, int64_t evaluation_batch) {
  std::vector<std::shared_ptr<backends::Executable>> steps;
  int64_t most = 0;
  const auto add = [&](const SharedStep& step) {
    steps.push_back(step->executable);
    most = std::max(most, static_cast<int64_t>(step->executable->arena_bytes()));
  };
  const auto peak = [&] {
    return device_.accounts_alone() ? device_.memory_for(arrays_.sizes(), steps) : arrays_.memory().total() + most;
  };
  for (const SharedStep& step : all_steps_of_windows(plan)) add(step);
  if (arrays_.reducer() != nullptr)
    most += static_cast<int64_t>(arrays_.reducer()->temporary_bytes(message(plan.max_batch())));
  PeakMemory memory{.training = peak()};
  if (evaluation_batch > 0) {
    add(forward_.step_of_evaluation(parts.at_once(evaluation_batch)));
    memory.evaluation = peak();
  }
  return memory;
}

}  // namespace runner::train
