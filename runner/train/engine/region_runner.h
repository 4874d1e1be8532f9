// Runs the traced regions of a hook's training loop (traced_region.h) and computes values of a region in progress. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/data/loader.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/step_arguments.h"
#include "runner/train/step/lost_gradient.h"
#include "runner/train/step/not_finite.h"

namespace runner::train {

class TracedRegion;  // traced_region.h

class RegionRunner {
 public:
  explicit RegionRunner(const EngineParts& parts) : parts_(parts) {}

  // Call before a region begins. The updates of a region count when they are recorded.
  void begin() {
    parts_.device.on_host_event(backends::HostEvent::kRecording);
    parts_.user.find_absent_states();
  }
  // Runs a finished region. `batch`: null if it has none. `name`: for traces and errors.
  void run(std::string_view name, const TracedRegion& region, const data::Batch* batch);
  // Of all regions that have run.
  const LostGradient& lost_gradient() const { return lost_gradient_; }
  // Reads an output of the region that ran last.
  double read_output(const TracedRegion& region, int output);
  // Drops a region after values of it have been read.
  void forget_exchanged() { parts_.executor.forget_exchanged(); }

  // Computes a value of a region in progress from the arrays and the batch. Returns its elements.
  std::vector<double> read_value(const TracedRegion& region, backends::ValueId value, const data::Batch* batch);
  // Like read_value(), but returns the bytes in memory.
  std::vector<std::byte> read_bytes(const TracedRegion& region, backends::ValueId value, const data::Batch* batch);

  // Finds the first value that was not finite in a region that has run, on this rank. May miss it if the region has
  // changed the parameters since.
  std::optional<NotFinite> explain_not_finite(const TracedRegion& region, const data::Batch* batch);

 private:
  StepSubmission arguments(const TracedRegion& region, const data::Batch* batch);
  // For a read of a region in progress.
  StepSubmission reading(const TracedRegion& region, const data::Batch* batch);
  SharedStep compiled(const TracedRegion& region);

  const EngineParts& parts_;
  SharedStep newest_;  // the last one that ran
  LostGradient lost_gradient_;
};

}  // namespace runner::train
