// The host part of a checkpoint as a JSON document: everything that the host and the hook count and keep.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/train/loop/checkpoint.h"
#include "store/state_store.h"

namespace runner::train {

// Name of the section that contains the document.
inline constexpr std::string_view kRunSection = "run";

// `optimizers`: names of all optimizers, including those that have not stepped.
std::string run_document(const Checkpoint& state, const std::vector<std::string>& optimizers);

// Returns the host part of a loaded checkpoint. `optimizers`: names for the update counts of older checkpoints, which
// have no names. Throws Error(kStore) naming the checkpoint if its format is neither that of run_document() nor of an
// older version.
Checkpoint checkpoint_of(const store::LoadedState& loaded, const std::vector<std::string>& optimizers = {});

}  // namespace runner::train
