// Sections of a state beside those of the run, the model, its moments and its gradients: the loss scaler's, PowerSGD's,
// and what is counted for each parameter.  A state of a run that had no such thing lacks them, and whatever is restored
// from it begins anew.
#pragma once

#include "runner/train/step/trainer.h"
#include "store/state_store.h"

namespace runner::train {

void capture_side_sections(Trainer& trainer, store::StateSnapshot& snapshot);

// Behind the gradients and the counters.  Throws Error(kStore) where a section is damaged.
void restore_side_sections(const store::LoadedState& loaded, Trainer& trainer);

// That of each parameter alone, as its moments go on; where the state has none, it has been updated as often as its
// optimizer has.
void restore_use(const store::LoadedState& loaded, Trainer& trainer);

}  // namespace runner::train
