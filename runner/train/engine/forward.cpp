#include "runner/train/engine/forward.h"

#include <cstddef>

#include "runner/train/engine/in_flight_step.h"

namespace runner::train {

SharedStep Forward::run(const data::Batch& batch, bool labelled, bool first) {
  parts_.arguments.set_any_rates();
  const StepKind kind{
      .training = false, .labelled = labelled, .shape = {.batch = batch.size, .first = first, .length = batch.length}};
  SharedStep step = parts_.steps.find(kind, &batch);
  const StepSubmission arguments = parts_.steps.arguments(batch, parts_.steps.recording(/*training=*/false));
  in_batch(parts_.steps.place_of(batch, /*training=*/false, labelled),
           [&] { parts_.executor.execute("forward", *step, arguments); });
  return step;
}

void Forward::evaluate(const data::Batch& batch, bool first, Evaluated& result) {
  const SharedStep step = run(batch, /*labelled=*/true, first);
  const auto size = static_cast<size_t>(batch.size),
             labels = static_cast<size_t>(parts_.encoding.label_width(batch.length)),
             width = static_cast<size_t>(parts_.encoding.outputs);
  const bool has_classes = parts_.encoding.label_kind == data::LabelKind::kClass;
  const StepBuilder::Recorded* const recorded = parts_.steps.recording(/*training=*/false);
  const bool has_own_labels = recorded != nullptr && recorded->targets != backends::kNoValue;
  int output = 0;  // in the order of StepBuilder::forward()
  const auto read = [&](auto& values, size_t count) {
    values.resize(count);
    parts_.device.read_output(*step->executable, output++, std::as_writable_bytes(std::span(values)));
  };
  read(result.losses, size);
  read(result.weights, size);
  if (parts_.builder.evaluations_read_plain_losses()) {
    read(result.plain_losses, size);
    read(result.plain_weights, size);
  }
  if (has_classes) read(result.ranks, size * labels);
  if (parts_.builder.evaluations_read_outputs()) read(result.outputs, size * labels * width);
  if (!has_own_labels) {
    result.classes.assign(batch.classes.begin(), batch.classes.end());
    result.targets.assign(batch.targets.begin(), batch.targets.end());
  } else if (has_classes) {
    read(result.classes, size * labels);
  } else {
    read(result.targets, size * width);
  }
  result.own_loss = recorded != nullptr && recorded->own_loss;
  result.metrics.clear();
  if (recorded != nullptr) add_metrics(parts_.device, *step, *recorded, output, result.metrics);
}

void Forward::predict(const data::Batch& batch, std::span<float> outputs) {
  const SharedStep step = run(batch, /*labelled=*/false, /*first=*/true);
  parts_.device.read_output(*step->executable, 0, std::as_writable_bytes(outputs));
}

SharedStep Forward::step_of_evaluation(int64_t samples) {
  const StepKind kind{.training = false, .labelled = true, .shape = {.batch = samples}};
  return parts_.steps.find(kind, nullptr);
}

}  // namespace runner::train
