// Further sections of a checkpoint: loss scaler, PowerSGD, and per-parameter update counts. A checkpoint of a
// run without such a feature lacks its section, and a run with it then starts with initial values.
#pragma once

#include "runner/train/engine/trainer.h"
#include "store/state_store.h"

namespace runner::train {

void capture_optional_sections(Trainer& trainer, store::StateSnapshot& snapshot);

// Call after gradients and counters have been restored. Throws Error(kStore) if a section is damaged.
void restore_optional_sections(const store::LoadedState& loaded, Trainer& trainer);

// Restores only the loss scale. Does nothing if the checkpoint or the trainer has none.
void restore_scaler(const store::LoadedState& loaded, Trainer& trainer);
// Restores only per-parameter update counts, together with moments. If the checkpoint has no count, it is that of the
// parameter's optimizer.
void restore_use(const store::LoadedState& loaded, Trainer& trainer);

}  // namespace runner::train
