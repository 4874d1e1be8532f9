// Completes a training step after its forward pass: backward pass, accumulation, clipping, updates, the sums for
// train/loss. Traced regions of a hook's training loop (segment.h) use the same parts.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"
#include "runner/optim/update_rules.h"
#include "runner/train/engine/device_layout.h"
#include "runner/train/engine/shares.h"
#include "runner/train/engine/step_builder.h"

namespace runner::train {

// The contents of a layout's arrays as values of a Program under construction: initially its inputs, then their updated
// values.
class ArrayValues {
 public:
  // `values`: values of the inputs in the order of the layout. `layout` must outlive the object.
  ArrayValues(const DeviceLayout& layout, std::vector<Value> values);

  bool has(Role role) const { return layout_.has(role); }
  Value get(Role role, int32_t buffer = 0, int32_t index = 0) const;
  void set(Value now, Role role, int32_t buffer = 0, int32_t index = 0);
  // Declares outputs that replace the arrays that were set, in the order in which they were first set.
  void output(backends::Program& program) const;

 private:
  const DeviceLayout& layout_;
  std::vector<Value> values_;
  std::vector<int32_t> changed_;
};

// What an update of a flat buffer depends on in addition to the gradient.
struct UpdateTerms {
  std::vector<Value> scalars;  // () or (elements) f32, as in optim::scalar_names()
  Value applied;               // () or (elements) bool; false leaves everything unchanged; unset means true
};
// Applies one update to a flat buffer: sets its parameters and slots to the results of the rule. gradient: (elements)
// f32. Returns optim::Updated::numbers.
std::vector<backends::TracedScalar> apply_update(ArrayValues& arrays, const optim::Rule& rule, int32_t buffer,
                                                 Value gradient, const UpdateTerms& terms);

// loss_and_weight() stacks two () tensors into (2) f64; number() returns element `index` of it, ().
Value loss_and_weight(Value loss, Value weight);
// Σ counted · value, as engine bookkeeping.
Value counted_sum(Value values, Value counted);
Value number(Value sums, int64_t index);

// Adds (2) f64 to a sum, if `applied` is true or unset.
void add_to_sum(ArrayValues& arrays, Sum sum, Value addend, Value applied);

// Returns the layout of factored gradients for a recording of the largest part of a batch.
MessageLayout message_layout(const StepBuilder& builder, const StepBuilder::Recorded& recorded);

// Makes a training step from a recorded forward part. Outputs: StepOutput with `last`, then metrics and arrays.
// `message`: if not empty, gradients are written in this layout to one additional last state instead of their arrays.
StepBuilder::Completed complete_step(const StepBuilder& builder, const StepBuilder::Recorded& recorded,
                                     const StepShape& shape, const MessageLayout& message = {});

// A training step as a device without shared memory would run it. `closes_window`: the last micro-batch of an optimizer
// step of several ranks; sums and gradients are all-reduced in it, and each rank updates its own weights.
StepBuilder::Completed step_graph(const StepBuilder& builder, const StepBuilder::Recorded& recorded, StepShape shape,
                                  bool closes_window);

// Output of complete_window() before the end of an optimizer step, on rank 0: the sum of the optimizer step, (2) f64.
// It does not overwrite a state because other ranks may still read the previous one.
inline constexpr int kPartSum = 0;

// The step in which ranks add up their gradients and sums. At the end of an optimizer step it does the rest of
// complete_step() for this rank's shard, with the same outputs except metrics. Earlier it replaces rank 0's sums by the
// sum over all ranks, and the other ranks start from zero. So the accumulated values are one set of arrays for any
// number of ranks, and a sum is a left fold from its first batch on. `message`: if not empty, gradients are in the
// messages of all ranks, which are additional last states; only with kRows. If gradients have been summed, the
// additional last states are this rank's shards of the sums, one per buffer in which it has a shard. kBuckets is for
// the end of an optimizer step only; with kFoldedRows, the gradients of rank 0 are not replaced before that end.
backends::Program complete_window(const StepBuilder& builder, const Shares& shares, bool ends_window = true,
                                  const MessageLayout& message = {}, SumSource source = SumSource::kRows);

// Like complete_window(), for a rank with its own weights and all gradients. Before the end of an optimizer step it
// only reduces gradients, if they are reduced after each batch and were not reduced during the backward pass.
backends::Program window_graph(const StepBuilder& builder, bool ends_window, bool are_summed);

}  // namespace runner::train
