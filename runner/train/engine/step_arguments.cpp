#include "runner/train/engine/step_arguments.h"

#include <algorithm>

#include "runner/optim/traced_scalars.h"
#include "runner/train/step/traced_region.h"
#include "schema/base/error.h"

namespace runner::train {

StepArguments::StepArguments(const EngineParts& parts)
    : parts_(parts),
      random_key_{parts.builder.recipe().seed, 0},
      draw_key_{static_cast<int64_t>(hook_seed(parts.builder.recipe(), parts.ranks)), 0} {}

// ---- numbers of updates ---------------------------------------------------------------------------------------------

void StepArguments::set_rates(const ScheduleRates& rates, int64_t accumulation) {
  accumulation_ = accumulation;
  parts_.user.set_rates(rates);
  if (parts_.clock != nullptr) return;
  const Optimizers& optimizers = parts_.builder.optimizers();
  size_t next = 0;
  for (const nn::FlatBuffer& buffer : parts_.builder.model().parameters.buffers()) {
    if (buffer.group < 0) continue;
    const OptimizerGroup& group = optimizers.groups[static_cast<size_t>(buffer.group)];
    const size_t count = optim::scalar_count(group.rule);
    scalars_.resize(next + count);
    optim::step_scalars(group.rule, rates.of(group), optimizers.updates_of(parts_.counters, group) + 1,
                        std::span(scalars_).subspan(next, count));
    next += count;
  }
}

void StepArguments::set_any_rates() {
  if (scalars_.empty()) set_rates({}, accumulation_);
}

// ---- of an execution ------------------------------------------------------------------------------------------------

LoadedInputs::LoadedInputs(const data::Batch& batch, size_t model_inputs) : count_(model_inputs + kSampleIds + 1) {
  std::copy_n(batch.inputs.begin(), model_inputs, bytes_.begin());
  bytes_[model_inputs + kLabels] = batch.targets.empty() ? std::as_bytes(batch.classes) : std::as_bytes(batch.targets);
  bytes_[model_inputs + kMask] = std::as_bytes(batch.weights);
  bytes_[model_inputs + kSampleIds] = std::as_bytes(batch.ids);
}

backends::Submission StepArguments::inputs(const data::Batch* batch, const backends::SourceLines* lines,
                                           std::span<const std::vector<std::byte>> given) {
  RUN_ASSERT(!parts_.arrays.states().empty());  // allocate() must come first
  const StepBuilder& builder = parts_.builder;
  batch_inputs_.resize(builder.position_of(kBatchInputCount));
  for (const std::vector<std::byte>& bytes : given) batch_inputs_.push_back(bytes.data());
  draw_key_[1] = parts_.hooks != nullptr ? parts_.hooks->draw() : 0;
  const auto bytes = [](const auto& values) { return reinterpret_cast<const std::byte*>(values.data()); };
  batch_inputs_[builder.position_of(kDrawKey)] = bytes(draw_key_);
  const std::span<const std::byte* const> inputs(batch_inputs_);
  backends::Submission submission{.states = parts_.arrays.states(),
                                  .batch = inputs.subspan(builder.position_of(kDrawKey)),
                                  .scalars = scalars_,
                                  .lines = lines,
                                  .exchange = parts_.executor.exchange()};
  if (batch == nullptr) return submission;
  random_key_[1] = batch->position.epoch;
  const LoadedInputs loaded(*batch, builder.model_inputs());
  std::ranges::transform(loaded.all(), batch_inputs_.begin(), [](std::span<const std::byte> b) { return b.data(); });
  batch_inputs_[builder.position_of(kRandomKey)] = bytes(random_key_);
  submission.batch = inputs;
  return submission;
}

StepSubmission StepArguments::of_region(const TracedRegion& region, const data::Batch* batch) {
  const nn::HostValues& host = region.host();
  StepSubmission submission{inputs(batch, &region.program().lines(), host.given), parts_.user.of_region(host)};
  submission.scalars = host.scalars;
  return submission;
}

StepSubmission StepArguments::of_step(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                                      TracedUntil traced, std::span<const backends::TracedScalar> rule_numbers) {
  const nn::HostValues none;
  const nn::HostValues& host = recorded != nullptr ? recorded->host : none;
  step_scalars_ = scalars_;
  step_scalars_.insert(step_scalars_.end(), host.scalars.begin(), host.scalars.end());
  StepSubmission submission{inputs(&batch, recorded != nullptr ? &recorded->program.lines() : nullptr, host.given),
                            parts_.user.of_step(host, traced, accumulation_, rule_numbers)};
  submission.scalars = step_scalars_;
  return submission;
}

}  // namespace runner::train
