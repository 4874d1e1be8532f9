// What each rank has accumulated for an optimizer step to come, as sections of a checkpoint.
//
// Ranks add up their gradients once, when the optimizer steps. A checkpoint before that therefore has the sums of each
// rank: those of rank 0 as "gradient/0.weight", "sums" and "use/0.weight", those of rank 1 as
// "rank/1/gradient/0.weight", "rank/1/sums" and "rank/1/use/0.weight", and so on. A run that continues with as many
// ranks continues from the same sums. With another number of ranks, the run continues from the left fold over all of
// them, which is the same up to rounding.
#pragma once

#include <vector>

#include "backends/dist/process_group.h"
#include "runner/train/engine/trainer.h"
#include "runner/train/loop/checkpoint.h"
#include "store/state_store.h"

namespace runner::train {

// Returns the sums of the ranks above 0, on rank 0. Collective.
std::vector<RankPart> gather_rank_parts(Trainer& trainer, backends::ProcessGroup& ranks);

// Whether it is a section of this rank.
bool is_part_of(const RankPart& part, int rank);

// Replaces the sums in `loaded` by those that this rank continues from. If the checkpoint has as many ranks as the
// trainer, moves the sections of the others to state.rank_parts. `state`: checkpoint_of(loaded). Throws Error(kStore)
// if a section is damaged.
void select_rank_part(store::LoadedState& loaded, Checkpoint& state, const Trainer& trainer);
// What the gradients are that select_rank_part() has left in the checkpoint.
GradientState restored_gradients(const Checkpoint& state, const Trainer& trainer);

}  // namespace runner::train
