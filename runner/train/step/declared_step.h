// The training steps that a recipe declares, one per micro-batch: after the forward pass the backward pass, gradient
// accumulation and the sums for train/loss; in the last micro-batch of an optimizer step also the update
// (declared_update.h), unless ranks add up their gradients first (rank_reduction.h).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"
#include "runner/train/step/factored_layout.h"
#include "runner/train/step/lost_gradient.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Which training step: the size of its micro-batch, and its position in the optimizer step.
struct StepShape {
  int64_t batch = 0;
  bool first = true;   // first micro-batch of the optimizer step: gradients are written, later ones are added
  bool last = true;    // last micro-batch of the optimizer step: the optimizer steps
  int64_t parts = 1;   // with loss scaling: batches per optimizer step
  int64_t length = 0;  // as in data::BatchShape
  std::optional<nn::CountedSamples> counted = {};  // see StepBuilder::counted_in()
  data::BatchShape batch_shape() const { return {batch, length}; }
  bool operator==(const StepShape&) const = default;
};

// Outputs of a training Program with `last`, in order.
enum StepOutput : int {
  kFinite = 0,    // () bool: the loss is finite, with on_nan: skip also every gradient; otherwise nothing was updated
  kGradNorm = 1,  // () f32, norm of the step's gradient before clipping; only if reports_grad_norm()
};
// If the device counts updates (update_clock.h), two outputs follow: () bool, whether the loss was finite and no
// gradient overflowed, so that the update was applied; and the learning rate factor, () f64.

// A training step as recorded.
struct CompletedStep {
  backends::Program program;
  std::vector<bool> reached;                    // by ParameterId: trained, and the losses depend on it
  std::vector<backends::TracedScalar> numbers;  // constants of a hook's update rules
  std::vector<GradientAddition> additions;      // to accumulated gradients
};

// Returns the layout of factored gradients for a recording of the largest part of a batch.
FactoredLayout factored_layout(const StepBuilder& builder, const StepBuilder::Recorded& recorded);

// Makes a training step from a recorded forward part. Outputs: StepOutput with `last`, then metrics and arrays.
// `factored`: if not empty, gradients are written in this layout to one additional last state instead of their arrays.
CompletedStep complete_step(const StepBuilder& builder, const StepBuilder::Recorded& recorded, const StepShape& shape,
                            const FactoredLayout& factored = {});

// A training step as a device without shared memory would run it. `closes_step`: the last micro-batch of an optimizer
// step of several ranks; sums and gradients are all-reduced in it, and each rank updates its own weights.
CompletedStep step_graph(const StepBuilder& builder, const StepBuilder::Recorded& recorded, StepShape shape,
                         bool closes_step);

}  // namespace runner::train
