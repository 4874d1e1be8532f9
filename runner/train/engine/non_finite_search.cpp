#include "runner/train/engine/non_finite_search.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/step/gradients.h"

namespace runner::train {

namespace {

// The error text if all forward passes are finite.
std::string not_found_text(const schema::Recipe& recipe) {
  if (!checks_gradients(recipe))
    return "the loss was not finite, but a second trace of the step gave a finite one: the step depends on state of "
           "the hook that is not registered or is larger than 1024 bytes";
  return fmt::format("the forward pass is finite, but a gradient is not{}",
                     communicates_in_fp16(recipe)
                         ? ", possibly only as fp16 in the all-reduce (comm.hook: bf16 has the range of float32)"
                         : "");
}

}  // namespace

NonFiniteSearch::NonFiniteSearch(const EngineParts& parts)
    : parts_(parts), ranks_(trains_locally(parts.builder.recipe(), parts.ranks) ? nullptr : parts.ranks) {}

NotFinite NonFiniteSearch::explain(data::Loader& loader, int64_t before, const HookMark& mark) {
  const std::string kept = parts_.hooks != nullptr ? parts_.hooks->state() : "";
  if (parts_.hooks != nullptr) rewind(mark, *parts_.hooks);
  NotFinite found = first_found(find(loader, before), not_found_text(parts_.builder.recipe()), ranks_,
                                parts_.executor.site("what is not finite"));
  if (parts_.hooks != nullptr) parts_.hooks->restore(kept);
  return found;
}

std::optional<NotFinite> NonFiniteSearch::find(data::Loader& loader, int64_t before) {
  // A hook, in any batch.
  const bool may_use_collectives =
      ranks_ != nullptr && (parts_.hooks != nullptr || parts_.builder.exchanges_in_forward());
  std::optional<NotFinite> found;
  for (;; ++before) {
    const data::Batch& batch = loader.next();
    const bool last = parts_.accumulation.ends(batch, before);
    parts_.accumulation.each_micro_batch(batch, [&](const data::Batch& part) {
      std::optional<NotFinite> here = find(part);
      if (!found) found = std::move(here);
      return !found || may_use_collectives;
    });
    if (last || (found && !may_use_collectives)) return found;
  }
}

std::optional<NotFinite> NonFiniteSearch::find(const data::Batch& batch) {
  parts_.device.on_host_event(backends::HostEvent::kRecording);
  const StepBuilder::Recorded recorded = parts_.builder.record(
      batch.shape(), true, parts_.steps.reader(&batch, /*training=*/true), parts_.builder.counted_in(batch));
  backends::Program program = recorded.program;
  const backends::Value losses{&program, recorded.losses}, counted{&program, recorded.counted};
  backends::ops::sum(backends::ops::mul(losses, counted));
  const auto batch_input = [&](size_t position) {
    return program.inputs()[parts_.builder.first_batch_input() + position].value;
  };
  const ForwardPass pass{program,
                         recorded.parameters,
                         batch_input(0),
                         batch_input(parts_.builder.position_of(kLabels)),
                         parts_.builder.position_of(kSampleIds),
                         program.size(),
                         recorded.weights};
  return first_not_finite(parts_.device, pass, parts_.builder.model().parameters,
                          parts_.steps.arguments(batch, &recorded), parts_.executor.memory());
}

}  // namespace runner::train
