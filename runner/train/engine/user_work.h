// Describes to a device model what the user's code does in each step: the graphs that it would compile, and the scalars
// and states that each execution of them uses.
//
// The Programs that run divide the work differently: ranks that share memory update one copy of the weights together,
// and a rank computes only its own samples of a batch. The engine reaches a model only through this class and
// ModelledDevice. Without a model that follows graphs, it does nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/data/loader.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/declared_step.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// A kind of step. Each kind has its own Program and graph.
struct StepKind {
  bool training;
  bool labelled;    // of a forward step
  StepShape shape;  // first and last: of a training step; first: also of an evaluation
  // For device models of graphs, with ranks that update together: the update belongs to this step.
  bool closes_step = false;
  int64_t padded = 0;  // for such models: samples of a declared step's batch when padded to that of the largest rank
  const FactoredLayout* factored = nullptr;  // layout of factored gradients; null if they are in their arrays
  bool operator==(const StepKind&) const = default;
};

// How far the user's code has traced: to the loss, to the gradients, or to the end of the optimizer step.
enum class TracedUntil { kForward, kBackward, kUpdate };

class UserWork {
 public:
  explicit UserWork(const EngineParts& parts) : parts_(parts) {}

  // ---- graphs ----

  // Returns `kind` with only those differences that the model sees. `batch`: null if it is not known yet.
  StepKind seen(StepKind kind, const data::Batch* batch) const;
  // Return the graphs of steps. `recorded`, the recording of the step, must live until the graph is made, as must the
  // other arguments. `completed`: the step as recorded; `program`: the step that runs; `numbers`: receives the
  // constants of a hook's update rules.
  backends::UserGraph of_training(const StepKind& kind, const StepBuilder::Recorded& recorded,
                                  const CompletedStep& completed, const backends::Program& program,
                                  std::vector<backends::TracedScalar>& numbers) const;
  backends::UserGraph of_forward(const StepKind& kind, const StepBuilder::Recorded& recorded) const;
  // Returns the graph of the step in which ranks add up their gradients and update. `are_reduced`: they were reduced
  // during the backward pass.
  backends::UserGraph of_update(bool are_reduced) const;
  // Returns the graph of an all-reduce of the gradients within an optimizer step.
  backends::UserGraph of_communication() const;
  // Returns the graph of a value that a hook reads, the only output of `program`.
  static backends::UserGraph of_read(const backends::Program& program);
  // Returns an empty graph, for engine-internal work.
  static backends::UserGraph of_nothing();

  // ---- executions ----

  // Sets the rates of updates from now on.
  void set_rates(const ScheduleRates& rates);
  // Finds the states that no step has created yet. Call before updates are counted.
  void find_absent_states();
  // Return the information about an execution, valid until the next call. `host`: numbers of the user's code;
  // `rule_numbers`: scalars of the hook's update rules in the step, if it updates; `accumulation`: batches per
  // optimizer step.
  backends::SubmissionInfo of_step(const nn::HostValues& host, TracedUntil traced, int64_t accumulation,
                                   std::span<const backends::TracedScalar> rule_numbers);
  backends::SubmissionInfo of_region(const nn::HostValues& host) const;
  backends::SubmissionInfo of_update() const;

 private:
  void trace_scalars(const ScheduleRates& rates);
  StepBuilder::Recorded recorded_as_counted(const StepKind& kind, const StepBuilder::Recorded& recorded) const;

  const EngineParts& parts_;
  std::vector<backends::TracedScalar> traced_, step_traced_;  // of an update; the second with those of a recording
  std::vector<int32_t> absent_;
};

}  // namespace runner::train
