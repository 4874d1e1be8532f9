// What an execution of a replica is handed: arrays, the batch, random keys, the numbers of updates, and for a device
// that keeps account of graphs what the user's code would have traced.
//
// Arguments refer to memory of this, of the batch and of the recording: each call voids those of the calls before, and
// none may come while the device is still at work on them.  Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/update_clock.h"
#include "runner/train/step/window.h"

namespace runner::train {

class Segment;  // segment.h

// What a loader gives of the batch inputs of a Program, from kFeatures to kSampleIds.
std::array<std::span<const std::byte>, kSampleIds + 1> inputs_of(const data::Batch& batch,
                                                                 const data::Encoding& encoding);

class StepArguments {
 public:
  // What it is made from; all must outlive it.
  struct Sources {
    const StepBuilder& builder;
    const data::Encoding& encoding;
    backends::Device& device;
    const DeviceArrays& arrays;
    const Counters& counters;
    const UpdateClock* clock;      // null: the host counts
    Hooks* hooks;                  // null: there is none
    uint64_t hook_seed;            // of its random tensors
    backends::Exchange* exchange;  // null: there are no other replicas
  };
  explicit StepArguments(const Sources& from);

  // Updates have these rates from now on, and a window so many batches.
  void set_rates(const WindowRates& rates, int64_t accumulation);
  // For what updates nothing, and comes before any rates: every Program has the numbers.
  void set_any_rates();
  // Before updates count: which states no step has made yet.
  void find_absent_states();

  // What the user's code would have traced: as far as the loss, to the gradients, or to the end of a window.
  enum class Traced { kForward, kBackward, kUpdate };
  // `recorded`: null, or the recording that a step was found by, whose numbers and lines are new.  `rule_numbers`: of
  // the step, where it updates.
  backends::Arguments of_step(const data::Batch& batch, const StepBuilder::Recorded* recorded,
                              Traced traced = Traced::kForward,
                              std::span<const backends::TracedScalar> rule_numbers = {});
  // On a batch or without one (null).
  backends::Arguments of_segment(const Segment& segment, const data::Batch* batch);
  // Of the step in which replicas meet.
  backends::Arguments of_window_end() { return inputs(nullptr, nullptr, {}); }

 private:
  backends::Arguments inputs(const data::Batch* batch, const backends::SourceLines* lines,
                             std::span<const std::vector<std::byte>> given);
  void trace_scalars(const WindowRates& rates);
  int64_t updates_of(const OptimizerGroup& group) const;

  const Sources from_;
  const schema::Recipe& recipe_;
  int64_t accumulation_ = 1;
  std::vector<double> scalars_, step_scalars_;                // of an update; with those of a hook's recording
  std::vector<backends::TracedScalar> traced_, step_traced_;  // likewise
  std::vector<int32_t> absent_;
  std::vector<const std::byte*> batch_inputs_;  // by BatchInput, then what a segment is given
  std::array<int64_t, 2> random_key_{}, draw_key_{};
};

}  // namespace runner::train
