// The step at the end of an optimizer step in which ranks add up their gradients and update.
#pragma once

#include "backends/ir/program.h"
#include "runner/train/step/factored_layout.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// The step in which ranks add up their gradients and sums, and update this rank's shard, with the outputs of
// StepOutput. Each rank has accumulated its own batches; the sum is the left fold over ranks, in f32. `factored`: if
// not empty, gradients are in the factored arrays of all ranks, which are additional last states; only with kRows. If
// gradients have been summed, the additional last states are this rank's shards of the sums, one per buffer in which it
// has a shard.
backends::Program record_reduction(const StepBuilder& builder, const Shard& shard, const FactoredLayout& factored = {},
                                   SumSource source = SumSource::kRows);

// Like record_reduction(), for a rank with its own weights and all gradients.
backends::Program reduction_graph(const StepBuilder& builder, bool are_summed);

// All-reduces the gradients, for a rank that shares nothing and communicates within an optimizer step.
backends::Program communication_graph(const StepBuilder& builder);

}  // namespace runner::train
