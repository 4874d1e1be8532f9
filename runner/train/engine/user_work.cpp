#include "runner/train/engine/user_work.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/ir/passes/passes.h"
#include "runner/optim/traced_scalars.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/rank_reduction.h"

namespace runner::train {

using backends::Program;
using backends::UserGraph;

// ---- graphs ---------------------------------------------------------------------------------------------------------

// A hook computes with exactly the samples that it is given. Only models of graphs see where an evaluation begins.
StepKind UserWork::seen(StepKind kind, const data::Batch* batch) const {
  kind.padded = kind.shape.batch;
  if (!parts_.device.traces_graphs()) {
    kind.closes_step = false;
    if (!kind.training) kind.shape.first = true;
    return kind;
  }
  if (batch != nullptr && !parts_.builder.varies(kind.training)) kind.padded = std::max(kind.padded, batch->largest);
  return kind;
}

StepBuilder::Recorded UserWork::recorded_as_counted(const StepKind& kind, const StepBuilder::Recorded& recorded) const {
  return kind.padded == kind.shape.batch
             ? recorded
             : parts_.builder.record({kind.padded, kind.shape.length}, kind.training, nullptr, kind.shape.counted);
}

UserGraph UserWork::of_training(const StepKind& kind, const StepBuilder::Recorded& recorded,
                                const CompletedStep& completed, const Program& program,
                                std::vector<backends::TracedScalar>& numbers) const {
  return [&, kind]() -> std::optional<Program> {
    if (kind.closes_step || kind.padded != kind.shape.batch) {
      CompletedStep graph =
          step_graph(parts_.builder, recorded_as_counted(kind, recorded), kind.shape, kind.closes_step);
      numbers = std::move(graph.numbers);
      return std::move(graph.program);
    }
    numbers = completed.numbers;
    if (kind.factored != nullptr) return complete_step(parts_.builder, recorded, kind.shape).program;
    if (program.size() != completed.program.size()) return completed.program;
    return std::nullopt;
  };
}

UserGraph UserWork::of_forward(const StepKind& kind, const StepBuilder::Recorded& recorded) const {
  if (!parts_.device.traces_graphs()) return {};
  return [this, kind, &recorded]() -> std::optional<Program> {
    const StepBuilder::Recorded counted = recorded_as_counted(kind, recorded);
    return kind.labelled ? parts_.builder.evaluation_graph(counted, kind.shape.first)
                         : parts_.builder.forward(counted, /*labelled=*/false);
  };
}

// A model of graphs sees the update as a part of the last step.
UserGraph UserWork::of_update(bool are_reduced) const {
  if (parts_.device.traces_graphs()) return of_nothing();
  return [this, are_reduced] { return reduction_graph(parts_.builder, are_reduced); };
}

UserGraph UserWork::of_communication() const {
  return [this] { return communication_graph(parts_.builder); };
}

UserGraph UserWork::of_read(const Program& program) {
  return [&program] { return backends::prune(program, backends::Keep::kStates); };
}

UserGraph UserWork::of_nothing() {
  return [] { return Program(); };
}

// ---- executions -----------------------------------------------------------------------------------------------------

void UserWork::set_rates(const ScheduleRates& rates) {
  if (parts_.device.traces_graphs()) trace_scalars(rates);
  find_absent_states();
}

// Traces what torch.optim and torch.nn.utils trace for an update. A group without parameters traces nothing. With
// device-side counters the scalars are on the device.
void UserWork::trace_scalars(const ScheduleRates& rates) {
  traced_.clear();
  const schema::Recipe& recipe = parts_.builder.recipe();
  if (const auto limit = recipe.train.clip_grad_norm) optim::trace_clip_grad_norm(*limit, traced_);
  if (const auto limit = recipe.train.clip_grad_value) optim::trace_clip_grad_value(*limit, traced_);
  if (parts_.clock != nullptr) return;
  const Optimizers& optimizers = parts_.builder.optimizers();
  size_t scalar = 0;
  for (const nn::FlatBuffer& buffer : parts_.builder.model().parameters.buffers()) {
    if (buffer.group < 0) continue;
    const OptimizerGroup& group = optimizers.groups[static_cast<size_t>(buffer.group)];
    const size_t first = traced_.size();
    optim::trace_scalars(group.rule, rates.of(group), optimizers.updates_of(parts_.counters, group) + 1, traced_);
    for (size_t i = first; i < traced_.size(); ++i) optimizers.mark_owner(traced_[i], group);
    const size_t count = optim::scalar_count(group.rule);
    if (group.rule.custom)
      for (size_t i = 0; first + i < traced_.size(); ++i)
        traced_[first + i].origin = parts_.builder.origin_of_scalar(scalar + i);
    scalar += count;
  }
}

// An optimizer creates its slots in its first update.
void UserWork::find_absent_states() {
  absent_.clear();
  if (!parts_.device.traces_graphs()) return;
  const int64_t pending = parts_.clock != nullptr ? parts_.clock->pending() : 0;
  const std::vector<DeviceArray>& arrays = parts_.arrays.layout().arrays();
  const Optimizers& optimizers = parts_.builder.optimizers();
  for (size_t i = 0; i < arrays.size(); ++i)
    if (!arrays[i].from_start &&
        optimizers.updates_of(parts_.counters, parts_.builder.group_of(arrays[i].buffer)) + pending == 0)
      absent_.push_back(static_cast<int32_t>(i));
}

// In PyTorch's order: scalars of the user's code, the division by the accumulation steps, scalars of the update.
backends::SubmissionInfo UserWork::of_step(const nn::HostValues& host, TracedUntil traced, int64_t accumulation,
                                           std::span<const backends::TracedScalar> rule_numbers) {
  backends::SubmissionInfo info = of_update();
  if (!parts_.device.traces_graphs()) return info;
  step_traced_ = host.traced;
  if (traced != TracedUntil::kForward) optim::trace_accumulation(accumulation, step_traced_);
  if (traced == TracedUntil::kUpdate) {
    step_traced_.insert(step_traced_.end(), rule_numbers.begin(), rule_numbers.end());
    step_traced_.insert(step_traced_.end(), traced_.begin(), traced_.end());
  }
  info.traced = step_traced_;
  return info;
}

backends::SubmissionInfo UserWork::of_region(const nn::HostValues& host) const {
  backends::SubmissionInfo info = of_update();
  if (parts_.device.traces_graphs()) info.traced = host.traced;
  return info;
}

backends::SubmissionInfo UserWork::of_update() const {
  return {.absent = absent_, .step = parts_.counters.batches};
}

}  // namespace runner::train
