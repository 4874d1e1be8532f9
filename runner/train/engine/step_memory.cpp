#include "runner/train/engine/step_memory.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/tensor/rounding.h"
#include "runner/train/engine/steps.h"
#include "runner/train/step/declared_step.h"

namespace runner::train {
namespace {

// Returns the first two and the last two of `count` consecutive steps. Memory use after them equals that after all
// steps.
std::vector<int64_t> ends_of(int64_t count) {
  std::vector<int64_t> numbers;
  for (const int64_t number : {int64_t{0}, int64_t{1}, count - 2, count - 1})
    if (number >= 0 && number < count && (numbers.empty() || number > numbers.back())) numbers.push_back(number);
  return numbers;
}

using Reduced = std::span<const backends::ReducedBytes>;

std::vector<int64_t> all_of(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

// Sizes in samples of the chosen micro-batches of a batch of `batch` samples.
std::vector<int64_t> micro_batches_of(const GradAccumulation& accumulation, int64_t batch,
                                      std::vector<int64_t> (*choice)(int64_t)) {
  const int64_t first = accumulation.micro_batch(batch);
  std::vector<int64_t> sizes;
  for (const int64_t part : choice(backends::ceil_div(batch, first)))
    sizes.push_back(accumulation.micro_batch(batch - part * first));
  return sizes;
}

int64_t most_temporary(const std::vector<backends::PlannedSubmission>& steps) {
  size_t most = 0;
  for (const auto& step : steps) most = std::max(most, step.executable->arena_bytes());
  return static_cast<int64_t>(most);
}

}  // namespace

StepMemory::TrainingStep StepMemory::step_of(int64_t batch, bool first, bool last) const {
  const bool updates = last && stepper_.steps_alone();
  return {stepper_.shape_of(batch, first, updates), last && !updates};
}

std::shared_ptr<backends::Executable> StepMemory::compiled(const TrainingStep& step) {
  return stepper_.training_step(step.shape, nullptr, step.closes_step)->executable;
}

void StepMemory::prepare(const StepShape& shape) {
  if (!may_read_values() && shape.batch > 0) {
    const auto step = compiled(step_of(shape.batch, shape.first, shape.last));
    parts_.executor.check_memory("forward, backward", *step);
    parts_.arrays.check_machine_memory(static_cast<int64_t>(step->arena_bytes()));
  }
  if (!parts_.arrays.shard()) return;
  const SharedStep update = stepper_.update_step(stepper_.factored_layout(shape.batch));
  parts_.executor.check_memory("update", *update->executable, backends::SpanKind::kOptimizer);
}

// If a hook may read values while it records, its steps cannot be compiled in advance. Then only the arrays are
// checked.
void StepMemory::check_graphs_fit(const data::DataPlan& plan, int64_t evaluation_batch) {
  if (!parts_.device.traces_graphs()) return;
  if (may_read_values()) {
    backends::Program arrays;
    parts_.builder.begin(arrays, {});
    parts_.device.compile(arrays);
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
  for (const TrainingStep& kind : training_steps(plan)) look_at([&] { compiled(kind); });
  if (evaluation_batch > 0 && !parts_.builder.varies(false))
    look_at([&] { forward_.step_of_evaluation(parts_.accumulation.micro_batch(evaluation_batch)); });
  if (worst) throw backends::OutOfMemory(*worst);
}

// Whether a hook may read values of tensors while it records.
bool StepMemory::may_read_values() const {
  return has(parts_.hooks, HookEntry::kTrainingStep) || has(parts_.hooks, HookEntry::kTrain);
}

void StepMemory::add_micro_batches(const data::DataPlan& plan, int64_t step, std::vector<StepShape>& batches) const {
  std::vector<data::Slice> slices;
  nn::CountedSamples counted;
  int64_t repeats = 0;
  for (int64_t rank = 0; rank < plan.spec().processes; ++rank) {
    data::Slice slice = plan.slice(rank, step);
    if (slice.size() == 0 && parts_.builder.exchanges_in_forward()) slice.repeats = 1;  // as the loader does
    counted.all += slice.real;
    repeats += slice.repeats;
    slices.push_back(slice);
  }
  for (const data::Slice& slice : slices) {
    const int64_t size = parts_.accumulation.micro_batch(slice.size());
    for (int64_t first = 0; first < slice.size(); first += size) {
      StepShape shape{.batch = std::min(size, slice.size() - first)};
      counted.own = std::clamp<int64_t>(slice.real - first, 0, shape.batch);
      if (repeats > 0) shape.counted = counted;
      if (std::ranges::find(batches, shape) == batches.end()) batches.push_back(shape);
    }
  }
}

void StepMemory::check_batches(const data::DataPlan& plan) {
  if (!parts_.builder.model().parameters.moves_buffers() || may_read_values()) return;
  std::vector<StepShape> batches;
  for (const int64_t step : ends_of(plan.steps_per_epoch())) add_micro_batches(plan, step, batches);
  const backends::ModelPause pause(parts_.device);
  for (const StepShape& batch : batches) parts_.steps.try_forward(batch);
}

// Steps differ only by whether they are the first or the last.
std::vector<StepMemory::TrainingStep> StepMemory::training_steps(const data::DataPlan& plan) const {
  const int64_t batch = parts_.accumulation.micro_batch(plan.max_batch()),
                of_batch = backends::ceil_div(plan.max_batch(), batch);
  std::vector<TrainingStep> kinds;
  for (const int64_t index : {int64_t{0}, std::max<int64_t>(plan.optimizer_steps(1), 1) - 1}) {
    const int64_t parts = plan.optimizer_step(index).steps * of_batch;
    for (int64_t part = 0; part < parts; ++part) {
      const TrainingStep step = step_of(batch, part == 0, part == parts - 1);
      auto kind = std::ranges::find_if(kinds, [&](const TrainingStep& each) { return each.is_like(step); });
      if (kind == kinds.end()) kind = kinds.insert(kind, step);
      if (index == 0) ++kind->per_step;
    }
  }
  return kinds;
}

void StepMemory::add_step(const data::DataPlan& plan, const data::OptimizerStep& optimizer_step, Choice choice,
                          Submissions& steps) {
  for (const int64_t batch : choice(optimizer_step.steps)) {
    const int64_t size = plan.largest_share((optimizer_step.first_step + batch) % plan.steps_per_epoch());
    const std::vector<int64_t> sizes = micro_batches_of(parts_.accumulation, size, choice);
    const bool ends_step = batch + 1 == optimizer_step.steps;
    for (size_t part = 0; part < sizes.size(); ++part) {
      const bool ends_batch = part + 1 == sizes.size();
      const TrainingStep step = step_of(sizes[part], batch == 0 && part == 0, ends_step && ends_batch);
      steps.push_back({compiled(step), ends_batch ? stepper_.reduced_after_batch(ends_step) : Reduced()});
    }
    if (!parts_.arrays.shard()) continue;
    const FactoredLayout* const factored = stepper_.factored_layout(size);
    if (ends_step) {
      steps.push_back({stepper_.update_step(factored)->executable});
    } else if (const SharedStep& communication = stepper_.communication_step()) {
      steps.push_back({communication->executable});
    }
  }
}

StepMemory::Submissions StepMemory::submissions(const data::DataPlan& plan) {
  Submissions steps;
  add_step(plan, plan.optimizer_step(0), all_of, steps);
  return steps;
}

StepMemory::Submissions StepMemory::steps_of_epoch(const data::DataPlan& plan) {
  const int64_t continued_steps = plan.spec().steps_end_with_epoch ? 0 : 1;  // a step may continue in the next epoch
  Submissions steps;
  for (const int64_t index : ends_of(std::max<int64_t>(plan.optimizer_steps(1), 1) + continued_steps))
    add_step(plan, plan.optimizer_step(index), ends_of, steps);
  return steps;
}

StepMemory::Submissions StepMemory::steps_of_evaluation(const data::DataPlan& plan) {
  Submissions steps;
  for (const int64_t batch : ends_of(plan.steps_per_epoch()))
    for (const int64_t samples : micro_batches_of(parts_.accumulation, plan.largest_share(batch), ends_of))
      steps.push_back({forward_.step_of_evaluation(samples)->executable});
  return steps;
}

PeakMemory StepMemory::peak(const data::DataPlan& plan, const std::optional<data::DataPlan>& evaluation) {
  const Submissions training = steps_of_epoch(plan);
  const Submissions evaluating = evaluation ? steps_of_evaluation(*evaluation) : Submissions();
  const std::vector<backends::ArrayBytes> arrays = parts_.arrays.sizes();
  if (const auto peak = parts_.device.peak_memory(arrays, training, {}))
    return {.training = *peak, .evaluation = evaluation ? *parts_.device.peak_memory(arrays, training, evaluating) : 0};
  const int64_t most = most_temporary(training);
  const int64_t resident = parts_.arrays.memory().total();
  return {.training = resident + most,
          .evaluation = evaluation ? resident + std::max(most, most_temporary(evaluating)) : 0};
}

}  // namespace runner::train
