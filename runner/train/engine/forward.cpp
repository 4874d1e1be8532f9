#include "runner/train/engine/forward.h"

#include <cstddef>

namespace runner::train {

Forward::Forward(const data::Encoding& encoding, backends::Device& device, Executor& executor, StepArguments& arguments,
                 Steps& steps)
    : encoding_(encoding), device_(device), executor_(executor), arguments_(arguments), steps_(steps) {}

SharedStep Forward::run(const data::Batch& batch, bool labelled, bool first) {
  arguments_.set_any_rates();
  const StepKind kind{.training = false, .labelled = labelled, .shape = {.batch = batch.size, .first = first}};
  const SharedStep step = steps_.find(kind, &batch);
  const StepSubmission arguments = steps_.arguments(batch, steps_.recording(/*training=*/false));
  in_batch(steps_.place_of(batch, /*training=*/false, labelled),
           [&] { executor_.execute("forward", *step, arguments); });
  return step;
}

void Forward::evaluate(const data::Batch& batch, bool first, Evaluated& result) {
  const SharedStep step = run(batch, /*labelled=*/true, first);
  const auto size = static_cast<size_t>(batch.size), labels = static_cast<size_t>(encoding_.label_width()),
             width = static_cast<size_t>(encoding_.outputs);
  const bool has_classes = encoding_.label_kind == data::LabelKind::kClass;
  const StepBuilder::Recorded* const recorded = steps_.recording(/*training=*/false);
  const bool has_own_labels = recorded != nullptr && recorded->targets != backends::kNoValue;
  int output = 0;  // in the order of StepBuilder::forward()
  const auto read = [&](auto& values, size_t count) {
    values.resize(count);
    device_.read_output(*step->executable, output++, std::as_writable_bytes(std::span(values)));
  };
  read(result.losses, size);
  read(result.weights, size);
  if (has_classes) read(result.ranks, size * labels);
  if (steps_.evaluations_read_outputs()) read(result.outputs, size * labels * width);
  if (!has_own_labels) {
    result.classes.assign(batch.classes.begin(), batch.classes.end());
    result.targets.assign(batch.targets.begin(), batch.targets.end());
  } else if (has_classes) {
    read(result.classes, size * labels);
  } else {
    read(result.targets, size * width);
  }
  result.metrics.clear();
  if (recorded != nullptr) add_metrics(device_, *step, *recorded, output, result.metrics);
}

void Forward::predict(const data::Batch& batch, std::span<float> outputs) {
  const SharedStep step = run(batch, /*labelled=*/false, /*first=*/true);
  device_.read_output(*step->executable, 0, std::as_writable_bytes(outputs));
}

SharedStep Forward::step_of_evaluation(int64_t samples) {
  const StepKind kind{.training = false, .labelled = true, .shape = {.batch = samples}};
  return steps_.find(kind, nullptr);
}

}  // namespace runner::train
