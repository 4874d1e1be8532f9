#include "runner/train/engine/loader_marks.h"

#include "runner/train/step/device_rules.h"

namespace runner::train {

void LoaderMarks::begin_batch(bool training) {
  if (recipe_.tpu.auto_mark_step) mark_where_due(training);
}

// PyTorch/XLA's loader marks a step when it finds the end of the data and, since version 2, once more after it.
void LoaderMarks::end_batches(bool training) {
  if (!recipe_.tpu.auto_mark_step) return;
  mark_where_due(training);
  if (dialect_of(recipe_).marks_after_data) device_.on_host_event(backends::HostEvent::kStepMark);
  since_mark_[training] = 0;
}

void LoaderMarks::mark_where_due(bool training) {
  if (++since_mark_[training] < recipe_.tpu.batches_per_execution) return;
  since_mark_[training] = 0;
  device_.on_host_event(backends::HostEvent::kStepMark);
}

}  // namespace runner::train
