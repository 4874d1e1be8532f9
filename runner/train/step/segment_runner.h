// Runs the segments of a hook's loop (segment.h), and computes values of one that is under way.  Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/account.h"
#include "backends/backend.h"
#include "runner/data/loader.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/step_arguments.h"
#include "runner/train/step/traced_graphs.h"
#include "runner/train/step/update_clock.h"

namespace runner::train {

class Segment;  // segment.h

class SegmentRunner {
 public:
  // `clock`: null, or the device counts.  `traced`: null, or what replicas compare.  All must outlive it.
  SegmentRunner(const StepBuilder& builder, backends::Device& device, Executor& executor, StepArguments& arguments,
                UpdateClock* clock, TracedGraphs* traced);

  // Before a segment begins, whose updates count as they are recorded.
  void begin() {
    note(device_, backends::HostEvent::kRecording);
    arguments_.find_absent_states();
  }
  // Runs a finished segment on a batch (null: it has none).
  // `name`: in traces and errors.
  void run(std::string_view name, const Segment& segment, const data::Batch* batch);
  // Of the segment that has run last.
  double read_output(const Segment& segment, int output);
  // A segment that has been read from is dropped.
  void forget_exchanged() { executor_.forget_exchanged(); }

  // The elements of a value of a segment under way, computed from the arrays and the batch.
  std::vector<double> read_value(const Segment& segment, backends::ValueId value, const data::Batch* batch);
  // The same as they lie in memory.
  std::vector<std::byte> read_bytes(const Segment& segment, backends::ValueId value, const data::Batch* batch);

  // What was not finite first in a segment that has run, on this replica; what it has changed since may hide it.
  std::optional<NotFinite> explain_not_finite(const Segment& segment, const data::Batch* batch);

 private:
  backends::Arguments arguments(const Segment& segment, const data::Batch* batch);

  const nn::ParameterSet& parameters_;
  backends::Device& device_;
  Executor& executor_;
  StepArguments& arguments_;
  UpdateClock* const clock_;
  TracedGraphs* const traced_;
  SharedStep newest_;  // that has run
};

}  // namespace runner::train
