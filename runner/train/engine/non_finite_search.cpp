#include "runner/train/engine/non_finite_search.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/ops.h"
#include "runner/train/engine/gradients.h"
#include "runner/train/engine/reduction.h"

namespace runner::train {

namespace {

// The error text if all forward passes are finite.
std::string not_found_text(const schema::Recipe& recipe) {
  if (!checks_gradients(recipe))
    return "the loss was not finite, but is finite when the step is traced again: it depends on hook state that is not "
           "registered or is larger than 1024 bytes";
  return fmt::format("the forward pass is finite, but a gradient is not{}",
                     communicates_in_fp16(recipe)
                         ? ", possibly only as fp16 in the all-reduce (comm.hook: bf16 has the range of float32)"
                         : "");
}

}  // namespace

NonFiniteSearch::NonFiniteSearch(const StepBuilder& builder, const GradAccumulation& accumulation,
                                 backends::ModelledDevice& device, Executor& executor, Steps& steps, Hooks* hooks,
                                 backends::ProcessGroup* ranks)
    : builder_(builder),
      accumulation_(accumulation),
      device_(device),
      executor_(executor),
      steps_(steps),
      hooks_(hooks),
      ranks_(ranks) {}

NotFinite NonFiniteSearch::explain(data::Loader& loader, int64_t before, const HookMark& mark) {
  const std::string kept = hooks_ != nullptr ? hooks_->state() : "";
  if (hooks_ != nullptr) rewind(mark, *hooks_);
  NotFinite found = first_found(find(loader, before), not_found_text(builder_.recipe()), ranks_,
                                executor_.site("what is not finite"));
  if (hooks_ != nullptr) hooks_->restore(kept);
  return found;
}

std::optional<NotFinite> NonFiniteSearch::find(data::Loader& loader, int64_t before) {
  const bool may_use_collectives = ranks_ != nullptr && hooks_ != nullptr;  // a hook, in any batch
  std::optional<NotFinite> found;
  for (;; ++before) {
    const data::Batch& batch = loader.next();
    const bool last = accumulation_.ends(batch, before);
    for (int64_t first = 0; first < batch.size && (!found || may_use_collectives);
         first += accumulation_.micro_batch(batch.size)) {
      std::optional<NotFinite> here = find(batch.part(first, accumulation_.micro_batch(batch.size - first)));
      if (!found) found = std::move(here);
    }
    if (last || (found && !may_use_collectives)) return found;
  }
}

std::optional<NotFinite> NonFiniteSearch::find(const data::Batch& batch) {
  device_.on_host_event(backends::HostEvent::kRecording);
  const StepBuilder::Recorded recorded = builder_.record(batch.size, true, steps_.reader(&batch, /*training=*/true));
  backends::Program program = recorded.program;
  const backends::Value losses{&program, recorded.losses}, counted{&program, recorded.counted};
  backends::ops::sum(backends::ops::mul(losses, counted));
  const auto batch_input = [&](size_t position) {
    return program.inputs()[builder_.first_batch_input() + position].value;
  };
  const ForwardPass pass{program,
                         recorded.parameters,
                         batch_input(0),
                         batch_input(builder_.position_of(kLabels)),
                         builder_.position_of(kSampleIds),
                         program.size(),
                         recorded.weights};
  return first_not_finite(device_, pass, builder_.model().parameters, steps_.arguments(batch, &recorded),
                          executor_.memory());
}

}  // namespace runner::train
