// The half of a training step behind its forward pass: derivative, accumulation, clipping, updates, the sums behind
// train/loss.  What a loop of a hook's does in pieces (segment.h) shares the pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"
#include "runner/optim/update_rules.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// What the arrays of a layout hold, as values of a Program under construction: its inputs at first, then what is made
// of them.
class ArrayValues {
 public:
  // `values`: those of the inputs, in the order of the layout, which must outlive this.
  ArrayValues(const DeviceLayout& layout, std::vector<Value> values);

  bool has(Role role) const { return layout_.has(role); }
  Value get(Role role, int32_t buffer = 0, int32_t index = 0) const;
  void set(Value now, Role role, int32_t buffer = 0, int32_t index = 0);
  // Declares outputs that replace the arrays which were set, in the order in which they first were.
  void output(backends::Program& program) const;

 private:
  const DeviceLayout& layout_;
  std::vector<Value> values_;
  std::vector<int32_t> changed_;
};

// What an update of a flat buffer depends on beside the gradient.
struct UpdateTerms {
  std::vector<Value> scalars;  // () or (elements) f32, those of optim::scalar_names()
  Value applied;               // () or (elements) bool, false leaves all as it is; unset: it is true
};
// One update of a flat buffer: its parameters and slots become what the rule makes of them.  gradient: (elements) f32.
// Returns optim::Updated::numbers.
std::vector<backends::TracedScalar> apply_update(ArrayValues& arrays, const optim::Rule& rule, int32_t buffer,
                                                 Value gradient, const UpdateTerms& terms);

// {loss, weight} of two () tensors, (2) f64; and one of them again, ().
Value loss_and_weight(Value loss, Value weight);
// Σ counted · value, an account of the engine's.
Value counted_sum(Value values, Value counted);
Value number(Value sums, int64_t index);

// Adds (2) f64 to a sum, where `applied` holds or is unset.
void add_to_sum(ArrayValues& arrays, Sum sum, Value addend, Value applied);

// How the gradients of a recording travel that has the largest share's samples.
MessageLayout message_layout(const StepBuilder& builder, const StepBuilder::Recorded& recorded);

// A training step made from a recorded forward part; the outputs are StepOutput's with `last`, then metrics and arrays.
// `message`: gradients are written to a state behind all others, laid out like that, in place of their arrays.
StepBuilder::Completed complete_step(const StepBuilder& builder, const StepBuilder::Recorded& recorded,
                                     const StepShape& shape, const MessageLayout& message = {});

// A training step as a device without common memory would have it.  `closes_window`: the last of a window of replicas
// that update together; sums and gradients are added up over all of them in it, and each updates weights of its own.
StepBuilder::Completed step_graph(const StepBuilder& builder, const StepBuilder::Recorded& recorded, StepShape shape,
                                  bool closes_window);

// Position of the output of complete_window() inside a window, of rank 0: the window's sum, (2) f64.  No state takes
// it, since others may still read the one before.
inline constexpr int kPartSum = 0;

// Where replicas meet in a window: adds up their gradients and sums.  At its end it does with this rank's share what
// complete_step() does behind the accumulation of a window's last batch; outputs as there, without metrics.  Before its
// end the sum of all takes the place of rank 0's, who goes on from it, and the others begin anew: so what has been
// added up is one set of arrays, whatever the number of replicas, and a sum is a left fold from its first batch on.
// `message`: they are in the messages of all ranks, which are states behind all others.  `are_summed`: instead the
// states behind all others are this rank's shares of the sums, one for each buffer that it has a share of; at the end
// of a window.
backends::Program complete_window(const StepBuilder& builder, const Shares& shares, bool ends_window = true,
                                  const MessageLayout& message = {}, bool are_summed = false);

// The same of a replica that has weights of its own, and all gradients beside them.  Inside a window it does nothing
// but reduce them, where it does so behind each batch and has not done it while it computed them.
backends::Program window_graph(const StepBuilder& builder, bool ends_window, bool are_summed);

}  // namespace runner::train
