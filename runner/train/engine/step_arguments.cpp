#include "runner/train/engine/step_arguments.h"

#include "backends/account.h"
#include "runner/optim/traced_scalars.h"
#include "runner/train/engine/segment.h"
#include "schema/base/error.h"

namespace runner::train {

StepArguments::StepArguments(const Sources& from)
    : from_(from),
      recipe_(from.builder.recipe()),
      random_key_{recipe_.seed, 0},
      draw_key_{static_cast<int64_t>(from.hook_seed), 0} {}

int64_t StepArguments::updates_of(const OptimizerGroup& group) const {
  return from_.counters.updates_of(from_.builder.optimizers().names[static_cast<size_t>(group.optimizer)]);
}

// ---- numbers of updates ---------------------------------------------------------------------------------------------

void StepArguments::set_rates(const WindowRates& rates, int64_t accumulation) {
  accumulation_ = accumulation;
  if (keeps_graphs(from_.device)) trace_scalars(rates);
  find_absent_states();
  if (from_.clock != nullptr) return;
  const Optimizers& optimizers = from_.builder.optimizers();
  size_t next = 0;
  for (const nn::FlatBuffer& buffer : from_.builder.model().parameters.buffers()) {
    if (buffer.group < 0) continue;
    const OptimizerGroup& group = optimizers.groups[static_cast<size_t>(buffer.group)];
    const size_t count = optim::scalar_names(group.rule.type).size();
    scalars_.resize(next + count);
    optim::step_scalars(group.rule, rates.of(group.rule), updates_of(group) + 1,
                        std::span(scalars_).subspan(next, count));
    next += count;
  }
}

void StepArguments::set_any_rates() {
  if (scalars_.empty()) set_rates({}, accumulation_);
}

// Traces what torch.optim and torch.nn.utils trace for an update. A group without parameters traces nothing. With
// device-side counters the scalars are on the device.
void StepArguments::trace_scalars(const WindowRates& rates) {
  traced_.clear();
  if (const auto limit = recipe_.train.clip_grad_norm) optim::trace_clip_grad_norm(*limit, traced_);
  if (const auto limit = recipe_.train.clip_grad_value) optim::trace_clip_grad_value(*limit, traced_);
  if (from_.clock != nullptr) return;
  size_t scalar = 0;
  for (const nn::FlatBuffer& buffer : from_.builder.model().parameters.buffers()) {
    if (buffer.group < 0) continue;
    const OptimizerGroup& group = from_.builder.optimizers().groups[static_cast<size_t>(buffer.group)];
    const size_t first = traced_.size();
    optim::trace_scalars(group.rule, rates.of(group.rule), updates_of(group) + 1, traced_);
    for (size_t i = first; i < traced_.size(); ++i) from_.builder.optimizers().mark_owner(traced_[i], group);
    const size_t count = optim::scalar_names(group.rule.type).size();
    if (group.rule.custom)
      for (size_t i = 0; i < count; ++i) traced_[first + i].origin = from_.builder.origin_of_scalar(scalar + i);
    scalar += count;
  }
}

// An optimizer creates its slots in its first update.
void StepArguments::find_absent_states() {
  absent_.clear();
  if (!keeps_graphs(from_.device)) return;
  const int64_t pending = from_.clock != nullptr ? from_.clock->pending() : 0;
  const std::vector<DeviceArray>& arrays = from_.arrays.layout().arrays();
  for (size_t i = 0; i < arrays.size(); ++i)
    if (!arrays[i].from_start && updates_of(from_.builder.group_of(arrays[i].buffer)) + pending == 0)
      absent_.push_back(static_cast<int32_t>(i));
}

// ---- of an execution ------------------------------------------------------------------------------------------------

std::array<std::span<const std::byte>, kSampleIds + 1> inputs_of(const data::Batch& batch,
                                                                 const data::Encoding& encoding) {
  static_assert(kFeatures == 0 && kLabels == 1 && kMask == 2 && kSampleIds == 3);
  const bool classes = encoding.label_kind == data::LabelKind::kClass;
  return {std::as_bytes(batch.features), classes ? std::as_bytes(batch.classes) : std::as_bytes(batch.targets),
          std::as_bytes(batch.weights), std::as_bytes(batch.ids)};
}

backends::Arguments StepArguments::inputs(const data::Batch* batch, const backends::SourceLines* lines,
                                          std::span<const std::vector<std::byte>> given) {
  RUN_ASSERT(!from_.arrays.states().empty());  // allocate() must come first
  batch_inputs_.resize(kBatchInputCount);
  for (const std::vector<std::byte>& bytes : given) batch_inputs_.push_back(bytes.data());
  draw_key_[1] = from_.hooks != nullptr ? from_.hooks->draw() : 0;
  const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
  batch_inputs_[kDrawKey] = bytes(draw_key_);
  const std::span<const std::byte* const> inputs(batch_inputs_);
  backends::Arguments arguments{.states = from_.arrays.states(),
                                .batch = inputs.subspan(kDrawKey),
                                .scalars = scalars_,
                                .lines = lines,
                                .absent = absent_,
                                .step = from_.counters.batches,
                                .exchange = from_.exchange};
  if (batch == nullptr) return arguments;
  random_key_[1] = batch->position.epoch;
  const auto of_loader = inputs_of(*batch, from_.encoding);
  for (size_t i = 0; i < of_loader.size(); ++i) batch_inputs_[i] = of_loader[i].data();
  batch_inputs_[kRandomKey] = bytes(random_key_);
  arguments.batch = inputs;
  return arguments;
}

backends::Arguments StepArguments::of_segment(const Segment& segment, const data::Batch* batch) {
  const nn::HostValues& host = segment.host();
  backends::Arguments arguments = inputs(batch, &segment.program().lines(), host.given);
  arguments.scalars = host.scalars;
  arguments.traced = host.traced;
  return arguments;
}

// In PyTorch's order: scalars of the user's code, the division by the accumulation steps, scalars of the update.
backends::Arguments StepArguments::of_step(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                                           Traced traced, std::span<const backends::TracedScalar> rule_numbers) {
  const nn::HostValues none;
  const nn::HostValues& host = recorded != nullptr ? recorded->host : none;
  step_scalars_ = scalars_;
  step_scalars_.insert(step_scalars_.end(), host.scalars.begin(), host.scalars.end());
  step_traced_ = host.traced;
  if (traced != Traced::kForward) optim::trace_accumulation(accumulation_, step_traced_);
  if (traced == Traced::kUpdate) {
    step_traced_.insert(step_traced_.end(), rule_numbers.begin(), rule_numbers.end());
    step_traced_.insert(step_traced_.end(), traced_.begin(), traced_.end());
  }
  backends::Arguments arguments =
      inputs(&batch, recorded != nullptr ? &recorded->program.lines() : nullptr, host.given);
  arguments.scalars = step_scalars_;
  arguments.traced = step_traced_;
  return arguments;
}

}  // namespace runner::train
