// The steps in which ranks add up their gradients: at the end of an optimizer step with the update, or before it.
#pragma once

#include "backends/ir/program.h"
#include "runner/train/step/factored_layout.h"
#include "runner/train/step/shard.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Output of record_reduction() before the end of an optimizer step, on rank 0: the sum of the optimizer step, (2) f64.
// It does not overwrite a state because other ranks may still read the previous one.
inline constexpr int kPartSum = 0;

// The step in which ranks add up their gradients and sums. At the end of an optimizer step it also updates this rank's
// shard, with the outputs of StepOutput. Earlier it replaces rank 0's sums by the sum over all ranks, and the other
// ranks start from zero. So the accumulated values are one set of arrays for any number of ranks, and a sum is a left
// fold from its first batch on. `factored`: if not empty, gradients are in the factored arrays of all ranks, which
// are additional last states; only with kRows. If gradients have been summed, the additional last states are this
// rank's shards of the sums, one per buffer in which it has a shard. kBuckets is for the end of an optimizer step only;
// with kFoldedRows, the gradients of rank 0 are not replaced before that end.
backends::Program record_reduction(const StepBuilder& builder, const Shard& shard, bool ends_step = true,
                                   const FactoredLayout& factored = {}, SumSource source = SumSource::kRows);

// Like record_reduction(), for a rank with its own weights and all gradients. Before the end of an optimizer step it
// only reduces gradients, if they are reduced after each batch and were not reduced during the backward pass.
backends::Program reduction_graph(const StepBuilder& builder, bool ends_step, bool are_summed);

}  // namespace runner::train
