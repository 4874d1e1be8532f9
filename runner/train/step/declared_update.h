// The end of an optimizer step that a recipe declares: the mean over its samples, clipping, and the updates.
#pragma once

#include <cstddef>
#include <span>

#include "backends/ir/program.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_recorder.h"

namespace runner::train {

// State of an optimizer step whose gradients are complete.
struct DeclaredUpdate {
  Value sums;              // (2) f64, {Σ loss, Σ weight} of the optimizer step
  bool are_means = false;  // the gradients have been divided by Σ weight
  bool is_shard = false;   // this rank has only a shard of the gradients; their norm is all-reduced
  // Shards of all ranks, in whose order the squares of the norm are summed; empty: in one sum.
  std::span<const Shard> norm_order = {};
  const Shard* updated = nullptr;  // what this rank updates of the gradients, which are whole; null: all that it has
  size_t first_scalar;             // index of the input with the first scalar of the optimizer groups
};

// Records the update of all buffers that have a gradient. Declares the outputs of StepOutput.
void record_update(StepRecorder& step, backends::Program& program, const StepBuilder& builder,
                   const DeclaredUpdate& update);

// 1 / Σ weight, () f32; 0 if Σ weight is 0. `sums`: as in DeclaredUpdate.
Value mean_factor(Value sums);

}  // namespace runner::train
